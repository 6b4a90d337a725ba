"""Reads a split with language tags or codes around texts; the stored data has none.

Legend: N examples.
"""

from collections.abc import Sequence

import numpy as np

from t2t.data.reader import SplitReader


class TaggedReader(SplitReader):
    """A split in which ids are added before and behind each sequence of one stored feature; lengths include them.

    Args:
        reader: of the split.
        feature: stored name.
        before: ids in front of each sequence.
        behind: ids behind it and its end of sequence.
    """

    def __init__(self, reader: SplitReader, feature: str, before: Sequence[int], behind: Sequence[int] = ()):
        vars(self).update(vars(reader))  # the same files and what they hold
        self._untagged, self._tagged = reader, feature
        self._before, self._behind = list(before), list(behind)
        self._added = len(self._before) + len(self._behind)
        self.ends = {**reader.ends, feature: (*reader.ends[feature], *behind)}
        self.longest = {**reader.longest, feature: reader.longest[feature] + self._added}

    def lengths(self, feature: str, indices: np.ndarray | None = None) -> np.ndarray:
        """Returns the lengths, (N,) int32, of the examples at `indices`, or of all."""
        lengths = self._untagged.lengths(feature, indices)
        return lengths + self._added if feature == self._tagged else lengths

    def read(self, indices: np.ndarray, feature: str) -> tuple[np.ndarray, np.ndarray]:
        """Reads examples, see `SplitReader.read`."""
        values, lengths = self._untagged.read(indices, feature)
        if feature != self._tagged:
            return values, lengths
        widened = lengths + self._added
        start_N, first = np.cumsum(widened, dtype=np.int64) - widened, len(self._before)
        marked = np.empty(len(values) + len(lengths) * self._added, values.dtype)
        marked[np.arange(len(values)) + np.repeat(np.arange(len(lengths)) * self._added + first, lengths)] = values
        for place, token_id in enumerate(self._before):
            marked[start_N + place] = token_id
        for place, token_id in enumerate(self._behind):
            marked[start_N + first + lengths + place] = token_id
        return marked, widened
