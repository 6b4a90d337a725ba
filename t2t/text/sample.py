"""A bounded part of a corpus that stands for the whole."""

import dataclasses
import zlib
from collections.abc import Callable, Iterable, Iterator


@dataclasses.dataclass(frozen=True)
class SampleSize:
    """How large a sample is, and of how much it is one."""

    lines: int
    bytes: int
    """Bytes of UTF-8 of the sample's lines."""
    of_lines: int
    """Lines of the corpus."""
    block: int
    """One line was kept of every so many."""

    def of_more(self, unread: int) -> "SampleSize":
        """Returns the size beside `unread` more lines of the corpus, among which those that were read lay evenly."""
        of_lines = self.of_lines + unread
        return dataclasses.replace(self, of_lines=of_lines, block=round(of_lines / self.lines)) if unread else self

    def __str__(self) -> str:
        size = f"{self.bytes / 1e6:.1f} MB"
        if self.lines == self.of_lines:
            return f"all {self.lines:,} lines ({size})"
        return f"{self.lines:,} of {self.of_lines:,} lines ({size}), one of every {self.block:,}"


def spread_sample(
    lines: Iterable[str], max_bytes: int, report: Callable[[SampleSize], None] | None = None
) -> Iterator[str]:
    """Yields lines of at most `max_bytes` together, spread evenly over all lines, in their order.

    The corpus is cut into blocks of 2^k consecutive lines, with the smallest k whose sample fits, and one line of each
    block is kept: which one is a fixed function of the block's number that follows no pattern, so that corpora of
    alternating lines (source, target, source, ...) are not thinned to one side. Everything is kept where it fits. One
    pass, nothing read before the first line is asked for, and no more in memory than the sample and one line.

    Args:
        lines: the corpus, read once.
        max_bytes: size of the sample in bytes of UTF-8; one line is yielded even if it is longer.
        report: told the size of the sample once it is known, before the first line is yielded.
    """
    kept: list[str] = []
    sizes: list[int] = []
    level = wanted = total = read = 0
    for position, line in enumerate(lines):
        read = position + 1
        if position != wanted:
            continue
        kept.append(line)
        sizes.append(len(line.encode("utf-8")))
        total += sizes[-1]
        while total > max_bytes and len(kept) > 1:
            level += 1
            survivors = _survivors(level, len(kept))
            kept, sizes = [kept[i] for i in survivors], [sizes[i] for i in survivors]
            total = sum(sizes)
        wanted = _representative_line(level, len(kept)) if level else read
    if report is not None:
        report(SampleSize(len(kept), total, read, 2**level))
    yield from kept


def _survivors(level: int, count: int) -> list[int]:
    """Returns which blocks of `level - 1`, of `count` read so far, give the kept line of a block of `level`."""
    chosen = (2 * block + _choose_half(level, block) for block in range((count + 1) // 2))
    return [position for position in chosen if position < count]


def _representative_line(level: int, block: int) -> int:
    """Returns the position in the corpus of the line that stands for a block of 2^level lines."""
    for lower in range(level, 0, -1):
        block = 2 * block + _choose_half(lower, block)
    return block


def _choose_half(level: int, block: int) -> int:
    """Returns which half of a block is kept, 0 or 1: a coin whose falls never change."""
    return zlib.crc32(b"%d:%d" % (level, block)) >> 16 & 1
