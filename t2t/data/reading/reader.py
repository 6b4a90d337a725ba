"""Random access to a split, also with language tags: memory maps and gathers, without loops over examples.

Lengths are on a common scale: ids, vectors, frames and 10 ms of audio count one each.

Letters: N requested examples.
"""

import json
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from itertools import islice
from pathlib import Path

import numpy as np

from t2t.data.columns import SEQUENCES, batch_dtype, length_unit, stored_dtype
from t2t.data.manifest import REMEDY, FileRecord, Manifest, SplitPart, verify_files
from t2t.data.npy_files import MappedFiles, NpyHeader
from t2t.errors import UserError, did_you_mean, one_line
from t2t.files.atomic import remedy_of
from t2t.files.trust import check_inside
from t2t.specs import EOS_ID
from t2t.specs.features import FeatureKind, FeatureSpec

BLOCK = 1 << 20
"""Examples per block when scanning the lengths of a whole split; bounds the memory."""

_UNITS = {
    FeatureKind.TOKENS: "tokens", FeatureKind.REAL: "vectors", FeatureKind.VIDEO: "frames",
    FeatureKind.AUDIO: "units of 10 ms",
}  # fmt: skip
"""What counts 1 in the lengths of sequences, by kind."""


class SplitReader:
    """One split of generated data. Opening it checks the size of each file against the manifest.

    Raises:
        UserError: there is no such split, or a file is missing, of another size, or not a valid array.
    """

    def __init__(self, folder: Path, manifest: Manifest, split: str):
        record = manifest.split(split)
        self.folder, self.split, self.problem = Path(folder), split, manifest.problem
        self.features: dict[str, FeatureSpec] = dict(manifest.spec.features)
        """Stored feature name to its spec."""
        self.longest: dict[str, int] = {name: totals.longest for name, totals in record.columns.items()}
        """Most items of a feature in one example."""
        self.ends: dict[str, tuple[int, ...]] = {
            name: (EOS_ID,) for name, spec in self.features.items() if spec.kind == FeatureKind.TOKENS
        }
        """By feature of tokens, the ids in which each sequence ends, also one that is cut."""
        self._record = record
        self._first = np.cumsum([0] + [part.examples for part in record.shards])
        self._values: dict[str, MappedFiles] = {}
        self._offsets: dict[str, MappedFiles] = {}
        for name in self.features:
            self._map(name)
        for texts in record.texts.values():
            self._checked(texts)

    def __len__(self) -> int:
        return int(self._first[-1])

    def is_sequence(self, feature: str) -> bool:
        """Returns whether the examples of a feature differ in length."""
        return self.features[feature].kind in SEQUENCES

    def lengths(self, feature: str, indices: np.ndarray | None = None) -> np.ndarray:
        """Returns the lengths, (N,) int32, of the examples at `indices`, or of all."""
        if indices is None:
            every = [np.diff(self._offsets[feature][number]) for number in range(len(self._record.shards))]
            return np.concatenate(every).astype(np.int32)
        return self._places(np.asarray(indices), feature)[2].astype(np.int32)

    def read(self, indices: np.ndarray, feature: str) -> tuple[np.ndarray, np.ndarray]:
        """Reads examples.

        Args:
            indices: (N,) integers in [0, len(self)), in any order.
            feature: stored name.

        Returns:
            Concatenated values, (sum of lengths, *item_shape) in the stored dtype, and lengths, (N,) int32.
        """
        numbers, starts, lengths = self._places(np.asarray(indices), feature)
        return self._values[feature].gather(numbers, starts, lengths), lengths.astype(np.int32)

    def single(self, indices: np.ndarray, feature: str) -> np.ndarray:
        """Reads examples of a feature with one item each (label, image): (N, *item_shape), in the batch dtype."""
        return self.read(indices, feature)[0].astype(batch_dtype(self.features[feature]), copy=False)

    def texts(self, feature: str, limit: int | None = None) -> list[str] | None:
        """Returns the raw text of the first `limit` examples, or of all; None if none is stored: the ids say it all."""
        file = self._record.texts.get(feature)
        if file is None:
            return None
        with (self.folder / file.name).open(encoding="utf-8", newline="\n") as lines:
            return [json.loads(line) for line in islice(lines, limit)]

    def verify(self) -> None:
        """Compares every file with its checksum, once; see `verify_files`.

        Raises:
            UserError: a file is not what was generated.
        """
        verify_files(self.folder, self._record.files())

    def _places(self, indices: np.ndarray, feature: str) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Returns where examples are, (N,) each: part numbers, first items there, lengths."""
        numbers = np.searchsorted(self._first, indices, side="right") - 1
        local = indices - self._first[numbers]
        starts = self._offsets[feature].items(numbers, local)
        return numbers, starts, self._offsets[feature].items(numbers, local + 1) - starts

    def _map(self, feature: str) -> None:
        """Maps the files of a feature; raises UserError unless the offsets fit the values, or reading would crash."""
        parts, spec = self._record.shards, self.features[feature]
        values = [self._header(part.values[feature]) for part in parts]
        offsets = [self._header(part.offsets[feature]) for part in parts]
        for number, part in enumerate(parts):
            fits = offsets[number].shape == (part.examples + 1,) and offsets[number].dtype == np.int64
            fits = fits and values[number].shape[1:] == spec.shape and values[number].dtype == stored_dtype(spec)
            self._check_fits(part, feature, fits)
        try:
            self._values[feature], self._offsets[feature] = mapped = MappedFiles(values), MappedFiles(offsets)
        except OSError as error:
            raise self._unreadable(Path(error.filename), error) from error
        for number, part in enumerate(parts):
            ends = mapped[1][number]
            self._check_fits(part, feature, ends[0] == 0 and ends[-1] == len(mapped[0][number]))

    def _check_fits(self, part: SplitPart, feature: str, fits: bool) -> None:
        if not fits:
            raise UserError(
                f"{self.folder / part.offsets[feature].name} does not fit {part.values[feature].name}", f"{REMEDY}"
            )

    def _header(self, record: FileRecord) -> NpyHeader:
        path = self._checked(record)
        try:
            return NpyHeader.read(path)
        except OSError as error:
            raise self._unreadable(path, error) from error
        except Exception as error:  # whatever numpy's parser makes of a damaged header
            raise UserError(f"{path} is corrupt ({one_line(error)})", f"{REMEDY}") from error

    def _unreadable(self, path: Path, error: OSError) -> UserError:
        cure = remedy_of(error, f"correct its permissions, or {REMEDY}")
        return UserError(f"cannot read {path}: {error.strerror}", cure)

    def _checked(self, record: FileRecord) -> Path:
        """Returns the path of a file after checking that it exists and has the size in the manifest."""
        path = self.folder / record.name
        check_inside(self.folder, path)
        try:
            size = path.stat().st_size
        except FileNotFoundError:
            raise UserError(f"{path} is missing", f"{REMEDY}") from None
        except OSError as error:
            raise self._unreadable(path, error) from error
        if size != record.bytes:
            raise UserError(f"{path} has {size:,} bytes where the manifest says {record.bytes:,}", f"{REMEDY}")
        return path


def checked_columns(reader: SplitReader, columns: Mapping[str, str] | None) -> dict[str, str]:
    """Returns feature name to stored feature name; if `columns` is None, all features under their own names.

    Raises:
        UserError: the data has no such feature.
    """
    columns = dict(columns) if columns is not None else {name: name for name in reader.features}
    for stored in columns.values():
        if stored not in reader.features:
            raise UserError(
                f"feature {stored!r}: the data of {reader.problem} in {reader.folder} has no such feature",
                f"{did_you_mean(stored, reader.features)}it has {', '.join(reader.features)}",
            )
    return columns


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
        for position, token_id in enumerate(self._before):
            marked[start_N + position] = token_id
        for position, token_id in enumerate(self._behind):
            marked[start_N + first + lengths + position] = token_id
        return marked, widened


class CutReader(SplitReader):
    """A split in which each sequence of some stored features is cut to a length, where need be without its end.

    Args:
        reader: of the split.
        most: stored name to the most items that are kept.
    """

    def __init__(self, reader: SplitReader, most: Mapping[str, int]):
        vars(self).update(vars(reader))  # the same files and what they hold
        self._uncut, self._most = reader, most
        self.longest = {name: min(longest, most.get(name, longest)) for name, longest in reader.longest.items()}

    def lengths(self, feature: str, indices: np.ndarray | None = None) -> np.ndarray:
        """Returns the lengths, (N,) int32, of the examples at `indices`, or of all."""
        lengths = self._uncut.lengths(feature, indices)
        return np.minimum(lengths, self._most[feature], dtype=np.int32) if feature in self._most else lengths

    def read(self, indices: np.ndarray, feature: str) -> tuple[np.ndarray, np.ndarray]:
        """Reads examples, see `SplitReader.read`."""
        values, lengths = self._uncut.read(indices, feature)
        if feature not in self._most:
            return values, lengths
        position = np.arange(len(values)) - np.repeat(np.cumsum(lengths) - lengths, lengths)
        return values[position < self._most[feature]], np.minimum(lengths, self._most[feature], dtype=np.int32)


def batch_unit(features: Iterable[FeatureSpec]) -> str:
    """Returns what `batch_size` counts in batches of some features, e.g. `padded tokens per side`."""
    units = [_UNITS[feature.kind] for feature in features if feature.kind in _UNITS]
    if not units:
        return "examples"
    return f"padded {' or '.join(dict.fromkeys(units))}{' per side' if len(units) > 1 else ''}"


def is_audio(reader: SplitReader, stored: str) -> bool:
    """Returns whether a feature is a waveform."""
    return reader.features[stored].kind == FeatureKind.AUDIO


def lengths_of(reader: SplitReader, stored: str, indices: np.ndarray | None = None) -> np.ndarray:
    """Returns the lengths, (N,) int32, of the examples at `indices`, or of all; see `length_unit`."""
    unit = length_unit(reader.features[stored])
    lengths = reader.lengths(stored, indices)
    return lengths if unit == 1 else -(-lengths // unit)


class SequenceLengths:
    """The lengths of the sequences in the batches of a split, by the features' names in the batches.

    Args:
        reader: of the split.
        columns: feature name to stored feature name; those that are not sequences are left out.
        max_length: limit on sequences of other kinds than audio; None for none.
        resized: stored features that preprocessors give any length up to `max_length`.
    """

    def __init__(
        self,
        reader: SplitReader,
        columns: Mapping[str, str],
        max_length: int | None = None,
        resized: Collection[str] = (),
    ):
        self._reader, self._max_length = reader, max_length
        self.columns = {name: stored for name, stored in columns.items() if reader.is_sequence(stored)}
        """Feature name to stored name of each sequence."""
        self.limited = [name for name, stored in self.columns.items() if not is_audio(reader, stored)]
        """Names of the features that `max_length` applies to."""
        self.longest: dict[str, int] = {}
        """By name, the longest length in a batch."""
        for name, stored in self.columns.items():
            longest = -(-reader.longest[stored] // length_unit(reader.features[stored]))
            if max_length is not None and name in self.limited:
                longest = max_length if stored in resized else min(longest, max_length)
            self.longest[name] = longest

    def of(self, indices: np.ndarray, reader: SplitReader | None = None) -> dict[str, np.ndarray]:
        """Returns the lengths, (N,) int32 by name, of the examples at `indices`, perhaps of another reader's."""
        return {name: lengths_of(reader or self._reader, stored, indices) for name, stored in self.columns.items()}

    def in_blocks(self) -> Iterator[dict[str, np.ndarray]]:
        """Yields the lengths of `BLOCK` stored examples at a time; nothing if there are no sequences."""
        for start in range(0, len(self._reader) if self.columns else 0, BLOCK):
            yield self.of(np.arange(start, min(start + BLOCK, len(self._reader))))

    def most(self, lengths: Mapping[str, np.ndarray]) -> np.ndarray:
        """Returns the length of the longest limited sequence of each example, (N,)."""
        return np.maximum.reduce([lengths[name] for name in self.limited])

    def clipped(self, lengths: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
        """Returns the lengths with those of limited sequences capped at `max_length`."""
        if self._max_length is None:
            return dict(lengths)
        return {**lengths, **{name: np.minimum(lengths[name], self._max_length) for name in self.limited}}
