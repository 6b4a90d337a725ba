"""The subsets of YAML that other toolkits write; nothing is executed, and no object is created.

Marian's has names, each with a value or a list of values, and vocabularies with an id for each word. Settings of
Sockeye and OpenNMT-tf are nested by indentation, one `name: value` a line. Their tags such as `!TransformerConfig`,
which name a class, are ignored, and so are their lists, which only describe files and training data.
"""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

_ESCAPES = {"n": "\n", "t": "\t", "r": "\r", "0": "\0", "a": "\a", "b": "\b", "v": "\v", "f": "\f", "e": "\x1b",
            "N": "\x85", "_": "\xa0", "L": "\u2028", "P": "\u2029"}  # fmt: skip
_ESCAPE = re.compile(r"\\(?:x([0-9a-fA-F]{2})|u([0-9a-fA-F]{4})|U([0-9a-fA-F]{8})|(.))", re.DOTALL)


def parse_settings(text: str) -> dict[str, Any]:
    """Returns settings by name: texts, numbers, booleans and lists of them.

    Raises:
        ValueError: a line with other syntax.
    """
    settings: dict[str, Any] = {}
    name = ""
    for line in text.split("\n"):
        content = line.strip()
        if not content or content in ("---", "...") or content.startswith("#"):
            continue
        if content.startswith("- ") and name and isinstance(settings[name] or [], list):
            settings[name] = settings[name] or []
            settings[name].append(_value(content[2:]))
        elif content.startswith("[") and name:
            settings[name] = _value(content)
        elif not line.startswith(" ") and ":" in content:
            name, _, value = content.partition(":")
            settings[name] = _value(value)
        else:
            raise ValueError(f"line {content[:60]!r} is not a name with a value")
    return settings


def parse_vocabulary(text: str) -> dict[str, int]:
    """Returns word -> id; of two lines with the same word the first counts.

    Raises:
        ValueError: a line that is not a word with an id.
    """
    if text.lstrip().startswith("{"):
        words = json.loads(text)
    else:
        words = {}
        for word, number in _entries(text):
            words.setdefault(word, number)
    if not all(type(number) is int and number >= 0 for number in words.values()):
        raise ValueError("an id is not a whole number")
    return words


def format_settings(settings: Mapping[str, Any]) -> str:
    """Formats settings as text for `parse_settings`."""
    lines = []
    for name, value in settings.items():
        if isinstance(value, list | tuple) and value:
            lines += [f"{name}:", *(f"  - {_format(item)}" for item in value)]
        else:
            lines.append(f"{name}: {_format(value)}")
    return "".join(f"{line}\n" for line in lines)


def format_vocabulary(words: Sequence[str]) -> str:
    """Formats words as text for `parse_vocabulary`; the index of a word is its id."""
    return "".join(f"{_quote(word)}: {number}\n" for number, word in enumerate(words))


def _format(value: Any) -> str:
    if isinstance(value, list | tuple):
        return "[]"
    return _quote(value) if isinstance(value, str) else json.dumps(value)


def _quote(text: str) -> str:
    """Returns a text in double quotes, with YAML's line breaks escaped."""
    return re.sub(
        "[\x7f-\x9f\u2028\u2029\ufeff]", lambda c: f"\\u{ord(c[0]):04x}", json.dumps(text, ensure_ascii=False)
    )


def _entries(text: str) -> Iterator[tuple[str, int]]:
    long_key = None
    for line in text.split("\n"):
        if not line.strip() or line in ("---", "..."):
            continue
        if line.startswith("? "):
            long_key = line[2:]
            continue
        key, _, number = (long_key, "", line.removeprefix(":")) if long_key is not None else line.rpartition(":")
        if not number.strip().isdecimal():
            raise ValueError(f"line {line[:60]!r} is not a word with an id")
        long_key = None
        yield unquote(key), int(number)


def unquote(text: str) -> str:
    """Returns the text of a scalar, quoted or not."""
    if len(text) > 1 and text[0] == text[-1] == '"':
        return _ESCAPE.sub(_unescape, text[1:-1])
    if len(text) > 1 and text[0] == text[-1] == "'":
        return text[1:-1].replace("''", "'")
    return text


def _unescape(found: re.Match[str]) -> str:
    code = found[1] or found[2] or found[3]
    return chr(int(code, 16)) if code else _ESCAPES.get(found[4], found[4])


def _value(text: str) -> Any:
    text = text.strip()
    if text.startswith("[") and text.endswith("]"):
        return [_value(part) for part in text[1:-1].split(",") if part.strip()]
    if text in ("true", "false"):
        return text == "true"
    if text in ("", "~", "null"):
        return None
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return unquote(text)


_ENTRY = re.compile(r"( *)([A-Za-z_][A-Za-z0-9_-]*):(?: +(.*?))? *$")
_COMMENT = re.compile(r"(^|\s)#.*$")


def parse_nested_settings(text: str) -> dict[str, Any]:
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
        text = found[3] or ""
        text = text if text.startswith(("'", '"')) else _COMMENT.sub("", text)
        values[path] = None if text.startswith("!") else _value(text)
        levels.append((indentation, found[2]))
    return values
