"""The grammar of `--hparams`, as Tensor2Tensor has it: `name=value,name=[v1,v2],name[3]=v`.

Values are typed by the field's default: an int takes no `1.0`, a bool takes true/false/True/False/1/0, strings may
hold `=` and `/` but neither `,` nor `[`. A trailing comma and spaces after commas are allowed.
"""

import math
import re
from typing import Any

from t2t.errors import UnknownNameError, UserError, did_you_mean

_ASSIGNMENT = re.compile(
    r"\s*(?P<name>[A-Za-z][\w.]*)(?:\[\s*(?P<index>\d{1,9})\s*\])?\s*=\s*+"
    r"(?:\[(?P<list>[^\]]*)\]\s*+|(?P<value>[^,\[]*+))(?:,|$)"  # possessive, so that no text takes long to refuse
)
_BOOLS = {"true": True, "True": True, "1": True, "false": False, "False": False, "0": False}


def parse_overrides(text: str, defaults: dict[str, Any], current: dict[str, Any]) -> dict[str, Any]:
    """Returns name -> typed value.

    Args:
        text: what `--hparams` was given.
        defaults: every known name with a value of its type.
        current: the values that `name[3]=v` changes one element of.

    Raises:
        UserError: malformed text, unknown name, a name assigned twice, a value of another type.
    """
    found: dict[str, Any] = {}
    assigned: dict[str, set[int | None]] = {}
    matches, unread = _assignments(text)
    if unread.strip():
        raise UserError(f"--hparams={text!r}: cannot read {unread!r}; write name=value,name=[v1,v2]")
    for match in matches:
        name, index = match["name"], match["index"]
        if name not in defaults:
            raise UnknownNameError(
                f"hparam {name!r} does not exist; {did_you_mean(name, defaults)}see --registry_help=hparams"
            )
        element = None if index is None else int(index)
        before = assigned.setdefault(name, set())
        if element in before or None in before or (element is None and before):
            raise UserError(f"--hparams={text!r}: {name} is assigned twice; keep one")
        before.add(element)
        if element is not None:
            found[name] = _with_element(name, found.get(name, current[name]), element, match)
        else:
            found[name] = _value(name, defaults[name], match)
    return found


def merge_overrides(earlier: str, later: str) -> str:
    """Returns one text of two: what the later one assigns takes the place of what the earlier one does.

    Both are in the grammar; what is malformed stays as it is, for `parse_overrides` to name.
    """
    assigned = {match["name"] for match in _assignments(later)[0]}
    matches, unread = _assignments(earlier)
    kept = [match[0].strip().rstrip(",") for match in matches if match["name"] not in assigned]
    return ",".join(filter(None, (*kept, unread.strip(), later)))


def _assignments(text: str) -> tuple[list[re.Match], str]:
    """Returns the assignments that a text begins with, and the rest, which cannot be read."""
    matches, position = [], 0
    while match := _ASSIGNMENT.match(text, position):
        matches.append(match)
        position = match.end()
    return matches, text[position:]


def _value(name: str, default: Any, match: re.Match) -> Any:
    is_list = isinstance(default, tuple)
    if is_list and match["list"] is None:
        raise UserError(f"hparam {name}={match['value']}: it is a list; write {name}=[v1,v2]")
    if not is_list and match["list"] is not None:
        raise UserError(f"hparam {name}=[{match['list']}]: it is one value, not a list; write {name}=value")
    if not is_list:
        return _scalar(name, type(default), match["value"].strip())
    kind = type(default[0]) if default else str
    return tuple(_scalar(name, kind, part.strip()) for part in match["list"].split(",") if part.strip())


def _with_element(name: str, values: Any, index: int, match: re.Match) -> tuple:
    if not isinstance(values, tuple):
        raise UserError(f"hparam {name}[{index}]: it is one value, not a list; write {name}=value")
    if match["list"] is not None:
        raise UserError(f"hparam {name}[{index}]: an element is one value, not a list")
    if index >= len(values):
        raise UserError(f"hparam {name}[{index}]: it has {len(values)} elements, counted from 0")
    element = _scalar(name, type(values[index]), match["value"].strip())
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
    raise UserError(f"hparam {name}={text}: not of type {kind.__name__}; give a value such as {_EXAMPLES[kind]}")


_EXAMPLES = {int: "4", float: "0.1", bool: "true or false"}
