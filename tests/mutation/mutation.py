"""One deliberate break: which text of which file becomes what, and which tests must fail then."""

import ast
import dataclasses
from pathlib import Path, PurePosixPath

ROOT = Path(__file__).parents[2]


class NotApplicableError(Exception):
    """The file is no longer what the mutation was written for."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class Mutation:
    """A change of one text in one file that breaks what the code means, and not its syntax."""

    name: str
    file: str
    """Relative to the root of the checkout."""
    original: str
    """Occurs exactly once in the file."""
    broken: str
    breaks: str
    """One sentence: what is wrong then."""
    tests: tuple[str, ...]
    """Default tests that should notice, as pytest is given them: few, and done within a minute."""
    hangs: bool = False
    """Whether the break makes tests run for ever; elsewhere running out of time does not count as caught."""
    survives: str = ""
    """Why no default test notices it; empty for a break that must be caught."""

    @property
    def package(self) -> str:
        """The package that the file belongs to, e.g. `t2t/metrics/brackets`."""
        return str(PurePosixPath(self.file).parent)

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


def all_packages(root: Path = ROOT) -> set[str]:
    """Returns every package of t2t/ with code of its own, named as `Mutation.package` names it."""
    packages = (path.parent for path in (root / "t2t").rglob("__init__.py"))
    return {str(package.relative_to(root)) for package in packages if len(list(package.glob("*.py"))) > 1}
