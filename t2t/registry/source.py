"""Reads registrations from the source of a module without running it, since importing Keras takes seconds."""

import ast
from pathlib import Path
from typing import Any

from t2t.registry.entry import Entry, RegistrationError, snake_case


def read_registrations(path: Path, decorator: str) -> list[Entry[Any]]:
    """Returns the names that a module registers with `@decorator`, read from its source without running it."""
    found: list[Entry[Any]] = []
    for node in ast.parse(path.read_text(encoding="utf-8")).body:
        if not isinstance(node, (ast.ClassDef, ast.FunctionDef)):
            continue
        for mark in node.decorator_list:
            call = mark if isinstance(mark, ast.Call) else None
            target = call.func if call else mark
            if decorator not in (getattr(target, "id", ""), getattr(target, "attr", "")):  # x, or t2t.registry.x
                continue
            given, aliases = (_argument(call, key, path) if call else None for key in ("name", "aliases"))
            name, origin = given or snake_case(node.name), f"{path}:{_first_line(node)}"
            found.append(Entry(name, (ast.get_docstring(node) or "").split("\n")[0], origin, None))
            found += [Entry(alias, f"alias of {name}", origin, None, alias_of=name) for alias in aliases or ()]
    return found


def assigned_in_class(path: Path, line: int, attribute: str) -> str:
    """Returns the name that the body of a class assigns to an attribute: `X` of `attribute = module.X`; "" for none.

    Args:
        path: file of the module.
        line: first line of the class, decorators included.
        attribute: name of the attribute.
    """
    for node in ast.parse(path.read_text(encoding="utf-8")).body:
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
            f"read; write it out"
        ) from None


def _first_line(node: ast.ClassDef | ast.FunctionDef) -> int:
    return min([node.lineno] + [mark.lineno for mark in node.decorator_list])
