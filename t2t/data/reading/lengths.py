"""Lengths of examples on a common scale: ids, vectors, frames and 10 ms of audio count one each.

Letters: N examples.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping

import numpy as np

from t2t.data.columns import length_unit
from t2t.data.reading.reader import SplitReader
from t2t.specs.features import FeatureKind, FeatureSpec

BLOCK = 1 << 20
"""Examples per block when scanning the lengths of a whole split; bounds the memory."""

_UNITS = {
    FeatureKind.TOKENS: "tokens", FeatureKind.REAL: "vectors", FeatureKind.VIDEO: "frames",
    FeatureKind.AUDIO: "units of 10 ms",
}  # fmt: skip
"""What counts 1 in the lengths of sequences, by kind."""


def batch_unit(features: Iterable[FeatureSpec]) -> str:
    """Returns what `batch_size` counts in batches of some features, e.g. `padded tokens per side`."""
    units = [_UNITS[feature.kind] for feature in features if feature.kind in _UNITS]
    if not units:
        return "examples"
    return f"padded {' or '.join(dict.fromkeys(units))}{' per side' if len(units) > 1 else ''}"


def is_audio(reader: SplitReader, stored: str) -> bool:
    """Returns whether a feature is a waveform."""
    return reader.features[stored].kind == FeatureKind.AUDIO


def select_id_sequences(reader: SplitReader, sequences: Mapping[str, str], by_name: Mapping) -> dict:
    """Returns the entries of the features that `max_length` applies to: all sequences except audio."""
    return {name: found for name, found in by_name.items() if not is_audio(reader, sequences[name])}


def lengths_of(reader: SplitReader, stored: str, indices: np.ndarray | None = None) -> np.ndarray:
    """Returns the lengths, (N,) int32, of the examples at `indices`, or of all; see `length_unit`."""
    unit = length_unit(reader.features[stored])
    lengths = reader.lengths(stored, indices)
    return lengths if unit == 1 else -(-lengths // unit)


def lengths_of_all(
    reader: SplitReader, sequences: Mapping[str, str], indices: np.ndarray | None
) -> dict[str, np.ndarray]:
    """Returns `lengths_of` each of some features, by name."""
    return {name: lengths_of(reader, stored, indices) for name, stored in sequences.items()}


def lengths_in_blocks(reader: SplitReader, sequences: Mapping[str, str]) -> Iterator[dict[str, np.ndarray]]:
    """Yields `lengths_of_all` for `BLOCK` examples of a split at a time; nothing if there are no sequences."""
    for start in range(0, len(reader) if sequences else 0, BLOCK):
        yield lengths_of_all(reader, sequences, np.arange(start, min(start + BLOCK, len(reader))))


def longest_of(reader: SplitReader, stored: str, max_length: int | None, resized: Collection[str] = ()) -> int:
    """Returns the longest length of a feature in a batch; for those in `resized`, `max_length` itself."""
    longest = -(-reader.longest[stored] // length_unit(reader.features[stored]))
    if max_length is None or is_audio(reader, stored):
        return longest
    return max_length if stored in resized else min(longest, max_length)


def longest_of_all(reader: SplitReader, sequences: Mapping[str, str], max_length: int | None) -> int:
    """Returns the largest `longest_of` of some features; 1 if there are none."""
    return max((longest_of(reader, stored, max_length) for stored in sequences.values()), default=1)


def within_length(lengths: Mapping[str, np.ndarray], max_length: int) -> np.ndarray:
    """Returns (N,) bool: whether all lengths of an example are within the limit."""
    return np.maximum.reduce(list(lengths.values())) <= max_length


def clip_lengths(lengths: Mapping[str, np.ndarray], max_length: int) -> dict[str, np.ndarray]:
    """Returns the lengths, capped at the limit."""
    return {name: np.minimum(counts, max_length) for name, counts in lengths.items()}
