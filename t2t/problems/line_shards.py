"""Shards of text files: each file is one, and each block of lines of a large plain one."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from t2t.files.line_blocks import LineBlock, cut_files
from t2t.problems.source import Source

SHARD_BYTES = 64 << 20
"""Of a plain text file, and of the larger side of a pair, in one shard."""

RECORDINGS_PER_SHARD = 1000
"""Of a file whose lines name recordings, each as large as many texts."""

Blocks = tuple[LineBlock, ...]
"""Of files whose lines belong together, the same lines of each."""


def every_shard(
    files: Sequence[Sequence[Path]], split: str, source: Source, most_lines: int | None = None
) -> list[Blocks]:
    """Returns the shards of a split, in order.

    Args:
        files: of the split in order; those whose lines belong together are one entry.
        split: its name.
        source: remembers where the files are cut.
        most_lines: of one shard, for lines that stand for something larger; None to go by bytes.

    Raises:
        UserError: see `cut_files`.
    """

    def cut() -> list[Any]:
        shards = [blocks for sides in files for blocks in cut_files(sides, SHARD_BYTES, most_lines)]
        return [[[str(block.path), block.first, block.start, block.stop] for block in blocks] for blocks in shards]

    found = source.cached(f"{split}-blocks", cut)
    return [tuple(LineBlock(Path(path), *place) for path, *place in blocks) for blocks in found]


def blocks_to_read(
    files: Sequence[Sequence[Path]], split: str, source: Source, most_lines: int | None = None
) -> list[Blocks]:
    """Returns what `source.shard` has of a split: all of its files where there is one shard; see `every_shard`."""
    if source.shards == 1:
        return [tuple(LineBlock(path) for path in sides) for sides in files]
    return [every_shard(files, split, source, most_lines)[source.shard]]
