"""Word alignments in the Pharaoh format, one line per pair of sentences: `0-0 1-2 2-1`.

A link `i-j` joins word i of the source with word j of the target, both counted from 0; words are separated by white
space. In alignments made by hand, `i?j` (also `ipj`) is a possible link; all others are sure.
"""

import re
from collections.abc import Iterable

from t2t.errors import UserError

Links = tuple[tuple[int, int], ...]
"""Pairs (word of the source, word of the target)."""

_LINK = re.compile(r"(\d+)([-?p])(\d+)", re.ASCII)


def format_links(links: Iterable[tuple[int, int]]) -> str:
    """Formats links as a line, without its end."""
    return " ".join(f"{source}-{target}" for source, target in links)


def parse_links(line: str, file: str, number: int) -> tuple[Links, Links]:
    """Returns the sure and the possible links of a line; the two do not overlap.

    Args:
        line: without its end.
        file: its name, for the message.
        number: of the line, from 1, for the message.

    Raises:
        UserError: the line contains anything but links.
    """
    sure: list[tuple[int, int]] = []
    possible: list[tuple[int, int]] = []
    for text in line.split():
        found = _LINK.fullmatch(text)
        if found is None:
            raise UserError(
                f"{file}: line {number:,} has {text[:40]!r}; a line has links like 0-0, word of the source and word "
                "of the target from 0, possible ones like 0?0, with a space between links",
                "correct the file",
            )
        (sure if found[2] == "-" else possible).append((int(found[1]), int(found[3])))
    return tuple(sure), tuple(possible)
