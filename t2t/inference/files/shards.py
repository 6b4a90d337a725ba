"""Shards of a file, ranges of whole windows of its lines, which several machines can process.

Windows are independent of each other, and the seed of a sample is the number of its line in the whole file. So the
concatenated outputs of the shards are the output that one machine would write.
"""

import dataclasses
import re
from pathlib import Path

from t2t.errors import UserError
from t2t.files.line_index import LineIndex, kept_index
from t2t.files.lines import LineSource
from t2t.files.output import check_output, is_stream

MOST_SHARDS = 99_999
"""Numbers have five digits, so that names sort as they count."""

_NAME = re.compile(r"([0-9]{1,9})/([0-9]{1,9})")


@dataclasses.dataclass(frozen=True)
class Shard:
    """One of the shards of a file."""

    number: int
    """From 0."""
    count: int
    """Of all shards; there may be more than the file has windows."""

    def __post_init__(self) -> None:
        if not 0 <= self.number < self.count <= MOST_SHARDS:
            raise UserError(
                f"shard {self}: K/N is shard K of N, from 0/N to N-1/N, and N at most {MOST_SHARDS:,}; give e.g. 0/100 "
                f"for the first of a hundred"
            )

    def __str__(self) -> str:
        return f"{self.number}/{self.count}"

    def lines(self, total: int, window: int) -> range:
        """Returns the lines of the shard, from 0; shards differ by at most one window.

        Args:
            total: lines of the file.
            window: lines of a window; the last of the file may have fewer.
        """
        windows = -(-total // window)
        first, end = (windows * number // self.count for number in (self.number, self.number + 1))
        return range(min(first * window, total), min(end * window, total))


def parse_shard(text: str) -> Shard:
    """Parses a shard such as `3/100`.

    Raises:
        UserError: the text has another form, or there is no such shard.
    """
    found = _NAME.fullmatch(text)
    if not found:
        raise UserError(f"shard {text[:40]!r}: it is written K/N; give e.g. 0/100 for the first of a hundred")
    return Shard(int(found[1]), int(found[2]))


SIDES = ("prefixes", "constraints")
"""Kinds of side files of the input: prefixes of outputs, and constraints on them."""


def check_sharded(source: str, target: str) -> None:
    """Checks that an input can be divided into shards, and that their parts can be written next to the output.

    Raises:
        UserError: the input or the output is a stream; see also `check_output`.
        MachineError: see `check_output`.
    """
    read = LineSource(source)
    if read.is_stream:
        raise UserError(f"{read}: shards are of a file, and this can be read only once; save it as a file")
    check_output(target)
    if is_stream(target):
        raise UserError(f"{target}: parts go next to the output, which is no file; name one")


def source_index(source: str, target: str) -> LineIndex:
    """Returns the index of an input, kept next to the output until the parts are merged; raises as `kept_index`."""
    return kept_index(source, index_paths(target)[0])


def side_index(side: str, path: str, target: str) -> LineIndex:
    """Returns the index of a side file; `side` is one of SIDES. See `source_index`."""
    return kept_index(path, index_paths(target)[1 + SIDES.index(side)])


def index_paths(target: str) -> tuple[Path, ...]:
    """Returns where the indexes of the input and of the files of SIDES are kept."""
    return tuple(Path(f"{target}.{name}.json") for name in ("lines", *SIDES))
