"""The entry of a registered name, and its default name. Entries are also read from the source of a module.

Importing Keras takes seconds, so that modules that need it are not run for their names.
"""

import ast
import dataclasses
import functools
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Generic, TypeVar

from t2t.errors import UserError

T = TypeVar("T")

_WORD_START = re.compile(r"(.)([A-Z][a-z0-9]+)")
_CAMEL_STEP = re.compile(r"([a-z0-9])([A-Z])")


class RegistrationError(UserError):
    """An invalid registration: bad name, taken name, wrong kind of object."""


def snake_case(name: str) -> str:
    """Returns Tensor2Tensor's default name of a class or function: `SliceNet` -> `slice_net`."""
    return _CAMEL_STEP.sub(r"\1_\2", _WORD_START.sub(r"\1_\2", name)).lower()


@dataclasses.dataclass(frozen=True)
class Entry(Generic[T]):
    """One registered name."""

    name: str
    summary: str
    """First line of the docstring."""
    origin: str
    """File and line of the registration, separated by a colon."""
    value: T | None
    """The registered object; None while its module has only been read, not imported."""
    alias_of: str = ""
    module: str = ""
    """Module whose import gives the value; of an entry that was read from source."""
    attribute: str = ""
    """Name of the value in that module."""


def read_registrations(path: Path, decorator: str, module: str = "") -> list[Entry[Any]]:
    """Returns the names that a module registers with `@decorator`, read from its source without running it.

    Args:
        path: file of the module.
        decorator: name of the decorator, e.g. `register_model`.
        module: dotted name of the module, for the entries.
    """
    return registrations(_parsed(path.read_text(encoding="utf-8")).body, path, decorator, module)


def registrations(body: Sequence[ast.stmt], path: Path, decorator: str, module: str) -> list[Entry[Any]]:
    """Returns what some of the statements of a module register, as `read_registrations`."""
    found: list[Entry[Any]] = []
    for node in body:
        if not isinstance(node, (ast.ClassDef, ast.FunctionDef)):
            continue
        for mark in node.decorator_list:
            if _decorator_name(mark) != decorator:
                continue
            call = mark if isinstance(mark, ast.Call) else None
            given, aliases = (_argument(call, key, path) if call else None for key in ("name", "aliases"))
            name, origin = given or snake_case(node.name), f"{path}:{_first_line(node)}"
            summary = (ast.get_docstring(node) or "").split("\n")[0]
            found.append(Entry(name, summary, origin, None, module=module, attribute=node.name))
            found += [Entry(alias, f"alias of {name}", origin, None, alias_of=name) for alias in aliases or ()]
    return found


def network_start(body: Sequence[ast.stmt]) -> int:
    """Returns the index of the statement of a module that begins what runs when it is used; beyond the last if none.

    In a model's file, that is the network: it begins with the first import after a registered hparams set and defines a
    registered model. A file that registers only what `_LATE` has, such as an optimizer, runs late as a whole.
    What runs late consists of imports, definitions and assignments, so that reading it tells all names it registers.
    """
    names = [map(_decorator_name, getattr(node, "decorator_list", ())) for node in body]
    marks = [{name for name in of_node if name.startswith("register_")} for of_node in names]
    first_set = next((number for number, found in enumerate(marks) if "register_hparams" in found), None)
    if first_set is None:
        start, registered = 0, set().union(*marks)
        is_late = bool(registered) and registered <= _LATE
    else:
        imports = (i for i in range(first_set, len(body)) if isinstance(body[i], ast.Import | ast.ImportFrom))
        start = next(imports, len(body))
        is_late = "register_model" in set().union(*marks[start:])
    are_definitions = all(isinstance(node, _DEFINITIONS) or _is_text(node) for node in body[start:])
    return start if is_late and are_definitions else len(body)


def defined_names(body: Sequence[ast.stmt]) -> frozenset[str]:
    """Returns the names that statements bind in their module."""
    found: set[str] = set()
    for node in body:
        if isinstance(node, ast.ClassDef | ast.FunctionDef):
            found.add(node.name)
        elif isinstance(node, ast.Import | ast.ImportFrom):
            found |= {alias.asname or alias.name.partition(".")[0] for alias in node.names}
        else:
            named = (name for name in ast.walk(node) if isinstance(name, ast.Name))
            found |= {name.id for name in named if isinstance(name.ctx, ast.Store)}
    return frozenset(found)


_LATE = {"register_optimizer", "register_objective", "register_search_method"}
"""Decorators of what needs Keras, and runs when it is used."""
_DEFINITIONS = (ast.Import, ast.ImportFrom, ast.ClassDef, ast.FunctionDef, ast.Assign, ast.AnnAssign)
_parsed = functools.lru_cache(maxsize=16)(ast.parse)
"""Two registries read the same files of models; a tree takes a quarter of a megabyte."""


def _is_text(node: ast.stmt) -> bool:
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)


def _decorator_name(mark: ast.expr) -> str:
    """Returns the last part of a decorator's name: `x` of `@x`, `@x(...)` and `@t2t.registry.x`."""
    target = mark.func if isinstance(mark, ast.Call) else mark
    return str(getattr(target, "id", getattr(target, "attr", "")))


def assigned_in_class(path: Path, line: int, attribute: str) -> str:
    """Returns the name that the body of a class assigns to an attribute: `X` of `attribute = module.X`; "" for none.

    Args:
        path: file of the module.
        line: first line of the class, decorators included.
        attribute: name of the attribute.
    """
    for node in _parsed(path.read_text(encoding="utf-8")).body:
        if isinstance(node, ast.ClassDef) and _first_line(node) == line:
            for statement in node.body:
                if not isinstance(statement, ast.Assign | ast.AnnAssign):
                    continue
                targets = statement.targets if isinstance(statement, ast.Assign) else [statement.target]
                if any(isinstance(target, ast.Name) and target.id == attribute for target in targets):
                    return ast.unparse(statement.value).rpartition(".")[2] if statement.value else ""
    return ""


def _argument(call: ast.Call, key: str, path: Path) -> Any:
    """Returns an argument of a decorator: `name`, positional or by keyword, or `aliases`; None if it is not given."""
    given = dict(zip(["name"], call.args, strict=False)) | {keyword.arg: keyword.value for keyword in call.keywords}
    try:
        return ast.literal_eval(given[key]) if key in given else None
    except ValueError:
        raise RegistrationError(
            f"{path}:{call.lineno}: the {key} {ast.unparse(given[key])} is found by running the module, which is only "
            "read",
            "write it out",
        ) from None


def _first_line(node: ast.ClassDef | ast.FunctionDef) -> int:
    return min([node.lineno] + [mark.lineno for mark in node.decorator_list])
