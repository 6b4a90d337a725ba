"""Shards of text files: each file is a shard; a large plain file has one for each block of lines."""

import logging
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from t2t.files.line_blocks import LineBlock, cut_files
from t2t.problems.source import Source

log = logging.getLogger("t2t")

SHARD_BYTES = 64 << 20
"""Size of one shard of a plain text file, or of the larger side of a pair."""

RECORDINGS_PER_SHARD = 1000
"""Lines per shard of a file whose lines name recordings, as each is as large as many texts."""

Blocks = tuple[LineBlock, ...]
"""The same lines of each of some parallel files."""


Files = Callable[[], Sequence[Sequence[Path]]]
"""Returns the files of a split in order; each entry has the parallel files of one corpus."""


def count_blocks(files: Files, split: str, source: Source, most_lines: int | None = None) -> int:
    """Returns the number of shards of a split.

    Args:
        files: of the split; they are listed and cut only once in a generation.
        split: its name.
        source: caches where the files are cut, and may say how large shards are.
        most_lines: lines per shard, if they stand for something larger than text; None to cut by bytes.

    Raises:
        UserError: see `cut_files`.
    """
    return len(_every_block(files, split, source, most_lines))


def blocks_to_read(files: Files, split: str, source: Source, most_lines: int | None = None) -> list[Blocks]:
    """Returns the blocks of shard `source.shard`, or all files if there is only one shard; see `count_blocks`."""
    if source.shards == 1:
        return [tuple(LineBlock(path) for path in sides) for sides in files()]
    blocks = _every_block(files, split, source, most_lines)[source.shard]
    return [tuple(LineBlock(Path(path), *place) for path, *place in blocks)]


def _every_block(files: Files, split: str, source: Source, most_lines: int | None) -> list[list[list[Any]]]:
    """Returns the path, first line, start and stop of every block of every shard."""

    def cut() -> list[Any]:
        shard_bytes, listed = source.shard_bytes or SHARD_BYTES, files()
        for sides in listed:
            if len(listed) > 1 and len(sides) > 1:
                log.info("%s: %s", split, " goes with ".join(map(str, sides)))
        shards = [blocks for sides in listed for blocks in cut_files(sides, shard_bytes, most_lines)]
        return [[[str(block.path), block.first, block.start, block.stop] for block in blocks] for blocks in shards]

    found: list[list[list[Any]]] = source.cached(f"{split}-blocks", cut)
    return found
