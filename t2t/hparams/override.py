"""The syntax of `--hparams`, the same as in Tensor2Tensor: `name=value,name=[v1,v2],name[3]=v`.

Values have the type of the field's default: an int does not accept `1.0`, a bool accepts true/false/True/False/1/0,
strings may contain `=` and `/`; those with commas or brackets, such as regular expressions, are put in quotes,
`name='a[0-3],b'`, which Tensor2Tensor does not have. A trailing comma and spaces after commas are allowed.
"""

import math
import re
from collections.abc import Iterable, Mapping
from typing import Any

from t2t.errors import ArgumentError, UnknownNameError, UserError
from t2t.hparams.synonyms import did_you_mean

_ASSIGNMENT = re.compile(
    r"\s*(?P<name>[A-Za-z][\w.]*)(?:\[\s*(?P<index>\d{1,9})\s*\])?\s*=\s*+"
    r"(?:\[(?P<list>[^\]]*)\]\s*+|(?P<quoted>'[^']*'|\"[^\"]*\")\s*+|(?P<value>[^,\[]*+))(?:,|$)"
    # possessive quantifiers avoid slow backtracking
)
_BOOLS = {"true": True, "True": True, "1": True, "false": False, "False": False, "0": False}


def parse_overrides(
    text: str, defaults: dict[str, Any], current: dict[str, Any], flag: str = "--hparams"
) -> dict[str, Any]:
    """Returns name -> typed value.

    `defaults` has every known name with a value of its type; `name[3]=v` changes one element of a `current` value.
    Messages name the `flag`.

    Raises:
        UserError: malformed text, unknown name, a name assigned twice, a value of another type.
    """
    found: dict[str, Any] = {}
    matches, unread = _assignments(text)
    if unread.strip():
        raise UserError(
            f"{flag}={text!r}: cannot read {unread!r}",
            "write name=value,name=[v1,v2], and text with commas or brackets as name='text'",
        )
    if unknown := next((match["name"] for match in matches if match["name"] not in defaults), ""):
        raise UnknownNameError(
            f"hparam {unknown!r} does not exist", f"{did_you_mean(unknown, defaults)}see --registry_help=hparams"
        )
    if name := _assigned_twice(matches):
        raise UserError(f"{flag}={text!r}: {name} is assigned twice", "keep one")
    for match in matches:
        name, index = _place(match)
        if index is not None:
            found[name] = _with_element(name, found.get(name, current[name]), index, match)
        else:
            found[name] = _value(name, defaults[name], match)
    return found


def join_overrides(texts: Iterable[str]) -> str:
    """Joins several texts with commas; a name that two of them assign is assigned twice in the result."""
    return ",".join(filter(None, (text.strip().removesuffix(",") for text in texts)))


def format_overrides(values: Mapping[str, Any]) -> str:
    """Formats name -> value as a text of assignments; the inverse of `parse_overrides`.

    Raises:
        ArgumentError: an invalid name, or a value that the syntax cannot express.
    """
    return ",".join(f"{name}={_formatted(name, value)}" for name, value in values.items())


def assigned_names(text: str) -> set[str]:
    """Returns the names that a text assigns, as a whole or by element."""
    return {match["name"] for match in _assignments(text)[0]}


def merge_overrides(earlier: str, later: str) -> str:
    """Merges two texts into one; assignments in `later` replace those in `earlier`.

    An element assigned in `later` replaces that element of a list in `earlier`. Malformed parts are kept, so that
    `parse_overrides` reports them.

    Raises:
        UserError: `later` assigns an element that the list in `earlier` does not have.
    """
    (matches, unread), (changes, later_unread) = _assignments(earlier), _assignments(later)
    if _assigned_twice(changes):
        return join_overrides((earlier, later))
    merged = {_place(match): match[0] for match in matches}
    lists = {match["name"]: _parts(match) for match in matches if match["index"] is None and match["list"] is not None}
    for match in changes:
        name, index = _place(match)
        if index is not None and name in lists:
            lists[name] = _with_element(name, lists[name], index, match)
            merged[name, None] = format_overrides({name: lists[name]})
            continue
        merged = {
            place: text
            for place, text in merged.items()
            if place[0] != name or (index is not None and place[1] not in (None, index))
        }
        merged[name, index] = match[0]
    return join_overrides((*merged.values(), unread, later_unread))


def drop_overrides(text: str, name: str) -> str:
    """Returns a text without its assignments to a name, as a whole or by element; malformed parts are kept."""
    matches, unread = _assignments(text)
    return join_overrides((*(match[0] for match in matches if match["name"] != name), unread))


def pick_overrides(text: str, name: str) -> str:
    """Returns the assignments of a text to a name alone, as a whole or by element."""
    return join_overrides(match[0] for match in _assignments(text)[0] if match["name"] == name)


def _formatted(name: Any, value: Any) -> str:
    if not isinstance(name, str) or not re.fullmatch(r"[A-Za-z][\w.]*", name):
        raise ArgumentError(f"hparams: {name!r} is not the name of an hparam", "give name -> value")
    if isinstance(value, list | tuple):
        return f"[{','.join(_formatted_scalar(name, element, in_list=True) for element in value)}]"
    return _formatted_scalar(name, value)


def _formatted_scalar(name: str, value: Any, in_list: bool = False) -> str:
    value = value.item() if hasattr(value, "item") else value  # numpy's numbers
    if isinstance(value, int | float) or (isinstance(value, str) and not re.search(r"[,\[\]]|^\s*['\"]", value)):
        return str(value)
    quote = next((mark for mark in "'\"" if isinstance(value, str) and mark not in value), "")
    if quote and not in_list:
        return f"{quote}{value}{quote}"
    raise ArgumentError(
        f"it is of type {type(value).__name__}",
        "give a number, a bool, text without both kinds of quotes, or a list of numbers, bools and text without ',' "
        "and brackets",
        hparam=name,
        value=value,
    )


def _assignments(text: str) -> tuple[list[re.Match[str]], str]:
    """Returns the assignments at the start of a text, and the malformed rest."""
    matches, position = [], 0
    while match := _ASSIGNMENT.match(text, position):
        matches.append(match)
        position = match.end()
    return matches, text[position:]


def _place(match: re.Match[str]) -> tuple[str, int | None]:
    """Returns the assigned name and element index; None for the whole value."""
    return match["name"], None if match["index"] is None else int(match["index"])


def _text(match: re.Match[str]) -> str:
    """Returns the single value that is assigned."""
    return match["value"].strip() if match["quoted"] is None else match["quoted"][1:-1]


def _parts(match: re.Match[str]) -> tuple[str, ...]:
    """Returns the elements of the assigned list."""
    return tuple(part.strip() for part in match["list"].split(",") if part.strip())


def _assigned_twice(matches: Iterable[re.Match[str]]) -> str | None:
    """Returns the first name that is assigned twice, or both as a whole and by an element."""
    assigned: dict[str, set[int | None]] = {}
    for name, index in map(_place, matches):
        before = assigned.setdefault(name, set())
        if index in before or None in before or (index is None and before):
            return name
        before.add(index)
    return None


def _value(name: str, default: Any, match: re.Match[str]) -> Any:
    is_list = isinstance(default, tuple)
    if is_list and match["list"] is None:
        raise UserError("it is a list", f"write {name}=[v1,v2]", hparam=name, value=_text(match))
    if not is_list and match["list"] is not None:
        raise UserError("it is one value, not a list", f"write {name}=value", hparam=name, value=f"[{match['list']}]")
    if not is_list:
        return _scalar(name, type(default), _text(match))
    kind = type(default[0]) if default else str
    return tuple(_scalar(name, kind, part) for part in _parts(match))


def _with_element(name: str, values: Any, index: int, match: re.Match[str]) -> tuple[Any, ...]:
    if not isinstance(values, tuple):
        raise UserError(f"hparam {name}[{index}]: it is one value, not a list", f"write {name}=value")
    if match["list"] is not None:
        raise UserError(f"hparam {name}[{index}]: an element is one value, not a list")
    if index >= len(values):
        raise UserError(f"hparam {name}[{index}]: it has {len(values)} elements, counted from 0")
    element = _scalar(name, type(values[index]), _text(match))
    return (*values[:index], element, *values[index + 1 :])


def _scalar(name: str, kind: type, text: str) -> Any:
    if kind is str:
        return text
    if kind is bool and text in _BOOLS:
        return _BOOLS[text]
    try:
        if kind is int:
            return int(text)
        if kind is float and math.isfinite(number := float(text)):
            return number
    except ValueError:
        pass
    raise UserError(f"not of type {kind.__name__}", f"give a value such as {_EXAMPLES[kind]}", hparam=name, value=text)


_EXAMPLES = {int: "4", float: "0.1", bool: "true or false"}
