"""Reads a split with a language tag in front of each input; the stored data has none."""

import numpy as np

from t2t.data.reader import SplitReader


class TaggedReader(SplitReader):
    """A split in which one stored feature begins with a tag, so that lengths count it.

    Args:
        reader: of the split.
        feature: stored name.
        tag_id: id of the tag.
    """

    def __init__(self, reader: SplitReader, feature: str, tag_id: int):
        vars(self).update(vars(reader))  # the same files and what they hold
        self._untagged, self._tagged, self._tag_id = reader, feature, tag_id
        self.longest = {**reader.longest, feature: reader.longest[feature] + 1}

    def lengths(self, feature: str, indices: np.ndarray | None = None) -> np.ndarray:
        """Returns the lengths, (N,) int32, of the examples asked for, or of all."""
        lengths = self._untagged.lengths(feature, indices)
        return lengths + 1 if feature == self._tagged else lengths

    def read(self, indices: np.ndarray, feature: str) -> tuple[np.ndarray, np.ndarray]:
        """Reads examples, see `SplitReader.read`."""
        values, lengths = self._untagged.read(indices, feature)
        if feature != self._tagged:
            return values, lengths
        starts = np.cumsum(lengths, dtype=np.int64) - lengths
        return np.insert(values, starts, self._tag_id), lengths + 1
