r"""Parses regular expressions into trees: the part of the notation of Python's `re` that automata can match.

    [A-Z]\w*( [a-z]+){1,3}|\d+     literals, ., classes, groups, |, * + ? {m} {m,} {m,n}, escapes

Classes such as \w are those of ASCII, and . is any character but a line end, as with `re.ASCII`. Groups only set the
precedence. The whole text has to match.
"""

import dataclasses
import re

from t2t.errors import UserError

Range = tuple[int, int]
"""First and last code point of a range of characters."""

LAST = 0x10FFFF
_SURROGATES = (0xD800, 0xDFFF)
_DEEPEST, _MOST_REPEATED = 50, 1000

_COUNT = re.compile(r"\{(\d+)(,?)(\d*)\}")
_CLASSES: dict[str, list[Range]] = {
    "d": [(0x30, 0x39)],
    "w": [(0x30, 0x39), (0x41, 0x5A), (0x5F, 0x5F), (0x61, 0x7A)],
    "s": [(0x09, 0x0D), (0x20, 0x20)],
}
_CONTROLS = {"n": "\n", "t": "\t", "r": "\r", "f": "\f", "v": "\v"}


@dataclasses.dataclass(frozen=True)
class Characters:
    """One character of some ranges."""

    ranges: tuple[Range, ...]


@dataclasses.dataclass(frozen=True)
class Sequence:
    """One part after the other."""

    parts: "tuple[Node, ...]"


@dataclasses.dataclass(frozen=True)
class Choice:
    """One of several parts."""

    parts: "tuple[Node, ...]"


@dataclasses.dataclass(frozen=True)
class Repeat:
    """A part repeated `least` to `most` times; None for any number."""

    part: "Node"
    least: int
    most: int | None


Node = Characters | Sequence | Choice | Repeat


def parse(pattern: str) -> Node:
    """Returns the tree of a regular expression; raises UserError if it is invalid or beyond automata."""
    return _Parser(pattern).whole()


def normalized(ranges: list[Range]) -> tuple[Range, ...]:
    """Returns ranges in order, without overlaps and without surrogates, which are no characters."""
    found: list[Range] = []
    for first, last in sorted(_without(ranges, _SURROGATES)):
        if found and first <= found[-1][1] + 1:
            found[-1] = (found[-1][0], max(last, found[-1][1]))
        else:
            found.append((first, last))
    return tuple(found)


def _without(ranges: list[Range], taken: Range) -> list[Range]:
    parts = [
        part for first, last in ranges for part in ((first, min(last, taken[0] - 1)), (max(first, taken[1] + 1), last))
    ]
    return [(first, last) for first, last in dict.fromkeys(parts) if first <= last]


def complement(ranges: list[Range]) -> tuple[Range, ...]:
    """Returns all other characters."""
    ends = [-1, *(number for pair in normalized(ranges) for number in pair), LAST + 1]
    between = list(zip(ends[::2], ends[1::2], strict=True))
    return normalized([(before + 1, after - 1) for before, after in between if before + 1 <= after - 1])


class _Parser:
    """Reads a pattern from left to right."""

    def __init__(self, pattern: str):
        self._pattern, self._at, self._depth = pattern, 0, 0

    def whole(self) -> Node:
        found = self._choice()
        if self._at < len(self._pattern):
            raise self._error("a bracket closes that was not opened")
        return found

    def _choice(self) -> Node:
        parts = [self._sequence()]
        while self._take("|"):
            parts.append(self._sequence())
        return parts[0] if len(parts) == 1 else Choice(tuple(parts))

    def _sequence(self) -> Node:
        parts: list[Node] = []
        while self._at < len(self._pattern) and self._peek() not in "|)":
            parts.append(self._repeated(self._atom()))
        return parts[0] if len(parts) == 1 else Sequence(tuple(parts))

    def _repeated(self, part: Node) -> Node:
        bounds = self._bounds()
        if bounds is None:
            return part
        if self._peek() in ("*", "+", "?", "{"):
            raise self._error("a repetition of a repetition; put the inner one in brackets")
        return Repeat(part, *bounds)

    def _bounds(self) -> tuple[int, int | None] | None:
        for sign, bounds in (("*", (0, None)), ("+", (1, None)), ("?", (0, 1))):
            if self._take(sign):
                return bounds
        if self._peek() != "{":
            return None
        found = _COUNT.match(self._pattern, self._at)
        if found is None:
            raise self._error("{ begins no number of times such as {2,3}; write \\{ for the character")
        least = _number(found[1])
        most = _number(found[3]) if found[3] else None if found[2] else least
        if max(least, most or 0) > _MOST_REPEATED or (most is not None and most < least):
            raise self._error(f"{found[0]:.20} times: from a smaller to a larger number, at most {_MOST_REPEATED}")
        self._at = found.end()
        return least, most

    def _atom(self) -> Node:
        sign = self._next()
        if sign == "(":
            return self._group()
        if sign == "[":
            return Characters(self._class())
        if sign == ".":
            return Characters(complement([(0x0A, 0x0A)]))
        if sign == "\\":
            return Characters(normalized(self._escape()))
        if sign in "*+?{^$":
            self._at -= 1
            why = "the whole text has to match anyway" if sign in "^$" else "there is nothing before it to repeat"
            raise self._error(f"{sign}: {why}; leave it out, or write \\{sign} for the character")
        return Characters(normalized([(ord(sign), ord(sign))]))

    def _group(self) -> Node:
        if self._take("?") and not self._take(":"):
            raise self._error("of groups with (? only (?:...) is known")
        self._depth += 1
        if self._depth > _DEEPEST:
            raise self._error(f"more than {_DEEPEST} brackets in one another")
        found = self._choice()
        self._depth -= 1
        if not self._take(")"):
            raise self._error("a bracket is not closed")
        return found

    def _class(self) -> tuple[Range, ...]:
        is_negative = self._take("^")
        ranges: list[Range] = []
        while not ranges or self._peek() != "]":
            first = self._member()
            if self._pattern[self._at : self._at + 1] == "-" and self._pattern[self._at + 1 : self._at + 2] not in (
                "]",
                "",
            ):
                self._at += 1
                last = self._member()
                if not (_is_one(first) and _is_one(last)) or last[0][0] < first[0][0]:
                    raise self._error("a range goes from a character to one that is not before it")
                first = [(first[0][0], last[0][0])]
            ranges += first
        self._at += 1
        return complement(ranges) if is_negative else normalized(ranges)

    def _member(self) -> list[Range]:
        sign = self._next()
        return self._escape() if sign == "\\" else [(ord(sign), ord(sign))]

    def _escape(self) -> list[Range]:
        sign = self._next()
        if sign in _CLASSES:
            return _CLASSES[sign]
        if sign.lower() in _CLASSES:
            return list(complement(_CLASSES[sign.lower()]))
        sign = _CONTROLS.get(sign, sign)
        if sign.isalnum() and sign.isascii():
            raise self._error(f"\\{sign}: there are \\d \\w \\s \\D \\W \\S \\n \\t \\r \\f \\v, and signs")
        return [(ord(sign), ord(sign))]

    def _peek(self) -> str:
        return self._pattern[self._at : self._at + 1]

    def _take(self, sign: str) -> bool:
        found = self._peek() == sign
        self._at += found
        return found

    def _next(self) -> str:
        if self._at == len(self._pattern):
            raise self._error("it ends too early")
        self._at += 1
        return self._pattern[self._at - 1]

    def _error(self, why: str) -> UserError:
        return UserError(f"regular expression {self._pattern!r:.80}, after {self._at} characters: {why}")


def _number(digits: str) -> int:
    """Returns a number of times; one that is too large for any stands for those with more digits than `int` reads."""
    return int(digits) if len(digits) < 10 else _MOST_REPEATED + 1


def _is_one(ranges: list[Range]) -> bool:
    return len(ranges) == 1 and ranges[0][0] == ranges[0][1]
