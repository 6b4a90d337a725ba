"""One deliberate break: which text of which file becomes what, and which tests must fail then."""

import ast
import dataclasses
import functools
from pathlib import Path, PurePosixPath

ROOT = Path(__file__).parents[2]


class NotApplicableError(Exception):
    """The file is no longer what the mutation was written for."""


@dataclasses.dataclass(frozen=True)
class Mutation:
    """A change of one text in one file that breaks what the code means, and not its syntax."""

    name: str
    breaks: str
    """One sentence: what is wrong then."""
    file: str
    """Relative to the root of the checkout."""
    original: str
    """Occurs exactly once in the file."""
    broken: str
    tests: str
    """Default tests that must notice, within a minute: `module` or `module::function`, separated by spaces; modules are
    named without their folders, and functions only where the rest of the module is slow."""

    @property
    def package(self) -> str:
        """The package that the file belongs to, e.g. `t2t/metrics/brackets`."""
        return str(PurePosixPath(self.file).parent)

    def tests_in(self, root: Path = ROOT) -> list[str]:
        """Returns the tests as pytest is given them in a copy.

        Raises:
            NotApplicableError: a file of tests is gone.
        """
        found = []
        for module, colons, function in (test.partition("::") for test in self.tests.split()):
            paths = _modules(root).get(module, [])
            if len(paths) != 1:
                raise NotApplicableError(f"there are {len(paths)} files {module}.py, not one")
            found.append(str(paths[0].relative_to(root)) + colons + function)
        return found

    def broken_source(self, root: Path = ROOT) -> str:
        """Returns the source of the file with the break in it.

        Raises:
            NotApplicableError: the file is gone, the original text does not occur in it exactly once, or the result is
                not Python or is the same program.
        """
        try:
            source = (root / self.file).read_text(encoding="utf-8")
        except FileNotFoundError:
            raise NotApplicableError(f"there is no {self.file}") from None
        if (count := source.count(self.original)) != 1:
            raise NotApplicableError(f"the original text occurs {count} times in {self.file}")
        mutated = source.replace(self.original, self.broken)
        try:
            compile(mutated, self.file, "exec", dont_inherit=True)  # it finds more than the parser
            is_same = ast.dump(ast.parse(mutated)) == ast.dump(ast.parse(source))
        except SyntaxError as error:
            raise NotApplicableError(f"{self.file} would not be Python: line {error.lineno}, {error.msg}") from error
        if is_same:
            raise NotApplicableError(f"the broken text means what the original means in {self.file}")
        return mutated


@functools.cache
def _modules(root: Path) -> dict[str, list[Path]]:
    """Returns the files of tests by their names."""
    found: dict[str, list[Path]] = {}
    for path in (root / "tests").rglob("*.py"):
        found.setdefault(path.stem, []).append(path)
    return found


def mutations(*rows: tuple[str, str, str, str, str, str]) -> tuple[Mutation, ...]:
    """Returns the mutations of a table: a row has the fields of each in their order."""
    return tuple(Mutation(*row) for row in rows)


def all_packages(root: Path = ROOT) -> set[str]:
    """Returns every package of t2t/ with code of its own, named as `Mutation.package` names it."""
    packages = (path.parent for path in (root / "t2t").rglob("__init__.py"))
    return {str(package.relative_to(root)) for package in packages if len(list(package.glob("*.py"))) > 1}
