"""Counts of a split's examples while it is generated: what was dropped, mended or unknown, and whether too much was."""

from collections import Counter, deque
from collections.abc import Iterable, Iterator, Mapping

import numpy as np

from t2t.data.encoding import Chunk
from t2t.data.manifest import ColumnTotals
from t2t.problems.base import Sample

WORTH_A_WARNING = 0.01
"""Share of unknown ids in a feature of a split from which on generation warns."""


class SplitTally:
    """Counts samples as they are drawn and chunks as they are encoded.

    An example is unfit where it is dropped or something in its raw data is mended; however much is, it counts once.
    Iterate over the tally instead of the samples; the problem adds to `mended` while it yields.
    """

    def __init__(self, samples: Iterable[Sample], mended: Counter):
        self._samples, self.mended = samples, mended
        self._is_mended: deque[bool] = deque()  # of the samples that are drawn and not yet encoded
        self.read = self.unfit = 0
        self.dropped: Counter = Counter()
        """Examples left out, by reason."""
        self.unknown: Counter = Counter()
        """Ids of unknown words in the examples that are kept, by feature."""

    def __iter__(self) -> Iterator[Sample]:
        before = self.mended.total()
        for sample in self._samples:
            now = self.mended.total() if self.mended else 0
            self._is_mended.append(now != before)
            before = now
            yield sample

    def add(self, chunk: Chunk) -> None:
        """Adds a chunk; chunks come in the order of their samples."""
        count = len(chunk.kept)
        is_mended = np.array([self._is_mended.popleft() for _ in range(count)], dtype=bool)
        self.read += count
        self.unfit += int((is_mended | ~chunk.kept).sum())
        self.dropped += chunk.dropped
        self.unknown += chunk.unknown

    @property
    def is_mostly_unfit(self) -> bool:
        """Whether more than half of the examples so far are unfit."""
        return 2 * self.unfit > self.read

    def describe(self) -> str:
        """Returns `; 12 dropped (10 with an empty side, ...); mended: ...`, or nothing."""
        text = ""
        if total := self.dropped.total():
            text += f"; {total:,} dropped ({_format_counts(self.dropped)})"
        return text + (f"; mended: {_format_counts(self.mended)}" if self.mended.total() else "")


def unknown_shares(unknown: Mapping[str, int], columns: Mapping[str, ColumnTotals], examples: int) -> dict[str, float]:
    """Returns the share of unknown ids by feature; the end of sequence of each example is not counted."""
    return {name: count / max(columns[name].items - examples, 1) for name, count in unknown.items()}


def _format_counts(counts: Counter) -> str:
    return ", ".join(f"{count:,} {reason}" for reason, count in sorted(counts.items()))
