"""Samples of bounded size that represent a whole corpus."""

import dataclasses
import zlib
from collections.abc import Iterable


@dataclasses.dataclass(frozen=True)
class SampleSize:
    """The size of a sample, and that of its corpus."""

    lines: int
    bytes: int
    """Bytes of UTF-8 of the sample's lines."""
    of_lines: int
    """Lines of the corpus."""
    block: int
    """One line in this many was kept."""

    def of_more(self, unread: int) -> "SampleSize":
        """Returns the size of the sample if the corpus has `unread` more lines, among which those read are spread."""
        of_lines = self.of_lines + unread
        return dataclasses.replace(self, of_lines=of_lines, block=round(of_lines / self.lines)) if unread else self

    def __str__(self) -> str:
        size = f"{self.bytes / 1e6:.1f} MB"
        if self.lines == self.of_lines:
            return f"all {self.lines:,} lines ({size})"
        return f"{self.lines:,} of {self.of_lines:,} lines ({size}), one of every {self.block:,}"


@dataclasses.dataclass
class SpreadSample:
    """Lines spread evenly over a corpus, or a part of one: one of each block of 2^level consecutive lines."""

    lines: list[str]
    sizes: list[int]
    """Bytes of UTF-8 of each line."""
    level: int
    of_lines: int
    """Lines of the corpus that were read."""
    skipped: int = 0
    """Lines of the corpus that were not read; those that were read are spread evenly among them."""

    def __post_init__(self) -> None:
        self.bytes = sum(self.sizes)

    def thin(self) -> None:
        """Keeps one line of each block of twice the size, about half of the lines."""
        self.level += 1
        survivors = _survivors(self.level, len(self.lines))
        self.lines, self.sizes = [self.lines[i] for i in survivors], [self.sizes[i] for i in survivors]
        self.bytes = sum(self.sizes)

    def size(self) -> SampleSize:
        """Returns how large the sample is."""
        return SampleSize(len(self.lines), self.bytes, self.of_lines, 2**self.level).of_more(self.skipped)


def draw_sample(lines: Iterable[str], max_bytes: int) -> SpreadSample:
    """Returns lines of at most `max_bytes` in all, spread evenly over the corpus, in their order.

    The corpus is cut into blocks of 2^k consecutive lines, with the smallest k whose sample fits, and one line of each
    block is kept. Which one is a pseudo-random function of the block's number, so that corpora of alternating lines
    (source, target, source, ...) are not thinned to one side. A corpus that fits is kept whole. It is read in one pass;
    only the sample and one line are in memory.

    Args:
        lines: the corpus, read once.
        max_bytes: size of the sample in bytes of UTF-8; one line is kept even if it is longer.
    """
    sample, wanted, read = SpreadSample([], [], 0, 0), 0, 0
    for position, line in enumerate(lines):
        read = position + 1
        if position != wanted:
            continue
        sample.lines.append(line)
        sample.sizes.append(len(line.encode("utf-8")))
        sample.bytes += sample.sizes[-1]
        while sample.bytes > max_bytes and len(sample.lines) > 1:
            sample.thin()
        wanted = _representative_line(sample.level, len(sample.lines)) if sample.level else read
    sample.of_lines = read
    return sample


def merge_samples(samples: Iterable[SpreadSample], max_bytes: int) -> SpreadSample:
    """Returns the lines of samples of consecutive parts of a corpus, thinned to one density and to `max_bytes`.

    So a part counts by its length, however much of it was drawn. Only the result and one sample are in memory.

    Args:
        samples: of the parts, in their order; they are changed.
        max_bytes: as of `draw_sample`.
    """
    parts: list[SpreadSample] = []
    level = 0
    for sample in samples:
        parts.append(sample)
        level = max(level, sample.level)
        while True:
            for part in parts:
                while part.level < level:
                    part.thin()
            size = sum(part.bytes for part in parts)
            if size <= max_bytes or sum(len(part.lines) for part in parts) <= 1:
                break
            level += 1
    return SpreadSample(
        [line for part in parts for line in part.lines],
        [size for part in parts for size in part.sizes],
        level,
        sum(part.of_lines for part in parts),
        sum(part.skipped for part in parts),
    )


def _survivors(level: int, count: int) -> list[int]:
    """Returns which of `count` blocks of `level - 1` provide the line that a block of `level` keeps."""
    chosen = (2 * block + _choose_half(level, block) for block in range((count + 1) // 2))
    return [position for position in chosen if position < count]


def _representative_line(level: int, block: int) -> int:
    """Returns the position in the corpus of the line that stands for a block of 2^level lines."""
    for lower in range(level, 0, -1):
        block = 2 * block + _choose_half(lower, block)
    return block


def _choose_half(level: int, block: int) -> int:
    """Returns which half of a block is kept, 0 or 1: a pseudo-random choice that is always the same."""
    return zlib.crc32(b"%d:%d" % (level, block)) >> 16 & 1
