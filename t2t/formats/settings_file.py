"""Reads the YAML settings files of Sockeye and OpenNMT-tf as names and values.

It supports the subset of YAML in these files: one `name: value` a line, nested by indentation. Tags such as
`!TransformerConfig`, which name a class, are ignored, and no object is created. Lists are ignored too: they only
describe files and training data.
"""

import re
from typing import Any

_ENTRY = re.compile(r"( *)([A-Za-z_][A-Za-z0-9_-]*):(?: +(.*?))? *$")
_COMMENT = re.compile(r"(^|\s)#.*$")
_CONSTANTS = {"null": None, "~": None, "": None, "true": True, "false": False}
_NUMBERS = ((int, re.compile(r"[-+]?\d+$")), (float, re.compile(r"[-+]?(\d+\.\d*|\.?\d+)(e[-+]?\d+)?$")))


def parse_settings(text: str) -> dict[str, Any]:
    """Returns the values by path, such as `config_encoder.num_layers`.

    Raises:
        ValueError: a line with other syntax, or a name that is given twice.
    """
    values: dict[str, Any] = {}
    levels: list[tuple[int, str]] = []  # indentation and name of the enclosing entries
    for number, line in enumerate(text.split("\n"), start=1):
        line = line.rstrip("\r")
        if not line.strip() or line.lstrip().startswith("#") or line.startswith(("!", "---")):
            continue
        indentation = len(line) - len(line.lstrip(" "))
        while levels and levels[-1][0] >= indentation:
            levels.pop()
        if line.lstrip(" ").startswith("- "):
            levels.append((indentation, "-"))
            continue
        if any(name == "-" for _, name in levels):
            continue
        found = _ENTRY.match(line)
        if not found:
            raise ValueError(f"line {number} is {line.strip()[:60]!r}, no name with a value")
        path = ".".join([*(name for _, name in levels), found[2]])
        if path in values:
            raise ValueError(f"line {number} gives {path} a second time")
        values[path] = _value(found[3] or "")
        levels.append((indentation, found[2]))
    return values


def _value(text: str) -> Any:
    """Parses a number, boolean, text or null; returns None for an entry with nested lines."""
    if not text.startswith(("'", '"')):
        text = _COMMENT.sub("", text).strip()
    if text.startswith("!"):
        return None
    if text in _CONSTANTS:
        return _CONSTANTS[text]
    for kind, pattern in _NUMBERS:
        if pattern.match(text):
            return kind(text)
    return text[1:-1] if len(text) > 1 and text[0] == text[-1] and text[0] in "'\"" else text
