"""Random access to a split: memory maps and gathers, without loops over examples.

Letters: N requested examples.
"""

from collections.abc import Mapping
from pathlib import Path

import numpy as np

from t2t.data.columns import SEQUENCES, batch_dtype, item_shape, ranges, stored_dtype
from t2t.data.manifest import REMEDY, FileRecord, Manifest, ShardRecord
from t2t.data.texts import read_texts
from t2t.data.verification import verify_files
from t2t.errors import UserError, did_you_mean, one_line
from t2t.files.trust import check_inside
from t2t.specs.constants import EOS_ID
from t2t.specs.features import FeatureKind, FeatureSpec


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
        self._first = np.cumsum([0] + [shard.examples for shard in record.shards])
        self._values = [self._map_all(shard.values) for shard in record.shards]
        self._offsets = [self._map_all(shard.offsets) for shard in record.shards]
        for number, shard in enumerate(record.shards):
            self._check_shapes(number, shard)
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
            return np.concatenate([np.diff(offsets[feature]) for offsets in self._offsets]).astype(np.int32)
        lengths = np.empty(len(indices), np.int32)
        for shard, rows, local in self._by_shard(np.asarray(indices)):
            offsets = self._offsets[shard][feature]
            lengths[rows] = offsets[local + 1] - offsets[local]
        return lengths

    def read(self, indices: np.ndarray, feature: str) -> tuple[np.ndarray, np.ndarray]:
        """Reads examples.

        Args:
            indices: (N,) integers in [0, len(self)), in any order.
            feature: stored name.

        Returns:
            Concatenated values, (sum of lengths, *item_shape) in the stored dtype, and lengths, (N,) int32.
        """
        indices = np.asarray(indices)
        if len(self._record.shards) == 1:
            offsets = self._offsets[0][feature]
            starts = offsets[indices]
            lengths = offsets[indices + 1] - starts
            return self._values[0][feature][ranges(starts, lengths)], lengths.astype(np.int32)
        lengths = self.lengths(feature, indices)
        ends = np.cumsum(lengths, dtype=np.int64)
        first = self._values[0][feature]
        values = np.empty((int(ends[-1]) if len(ends) else 0, *first.shape[1:]), first.dtype)
        for shard, rows, local in self._by_shard(indices):
            taken = lengths[rows]
            source = ranges(self._offsets[shard][feature][local], taken)
            values[ranges((ends - lengths)[rows], taken)] = self._values[shard][feature][source]
        return values, lengths

    def single(self, indices: np.ndarray, feature: str) -> np.ndarray:
        """Reads examples of a feature with one item each (label, image): (N, *item_shape), in the batch dtype."""
        return self.read(indices, feature)[0].astype(batch_dtype(self.features[feature]), copy=False)

    def texts(self, feature: str, limit: int | None = None) -> list[str] | None:
        """Returns the raw text of the first `limit` examples, or of all; None if none is stored: the ids say it all."""
        file = self._record.texts.get(feature)
        return read_texts(self.folder / file.name, limit) if file else None

    def verify(self) -> None:
        """Compares every file with its checksum, once; see `verify_files`.

        Raises:
            UserError: a file is not what was generated.
        """
        verify_files(self.folder, self._record.files())

    def _by_shard(self, indices: np.ndarray):
        """Yields the shard number, the rows of `indices` that lie in it, (n,), and their indices in it, (n,)."""
        if len(self._record.shards) == 1:
            yield 0, slice(None), indices
            return
        shard_of = np.searchsorted(self._first, indices, side="right") - 1
        for shard in np.unique(shard_of):
            rows = np.flatnonzero(shard_of == shard)
            yield int(shard), rows, indices[rows] - self._first[shard]

    def _map_all(self, records: dict[str, FileRecord]) -> dict[str, np.ndarray]:
        return {name: self._map(records[name]) for name in self.features}

    def _map(self, record: FileRecord) -> np.ndarray:
        path = self._checked(record)
        try:
            # A plain array over the map: indexing np.memmap itself costs several times as much.
            # Unlike np.load this reads no pickles and no archives.
            return np.asarray(np.lib.format.open_memmap(path, mode="r")).view(np.ndarray)
        except OSError as error:
            raise UserError(f"cannot read {path}: {error.strerror}; correct its permissions, or {REMEDY}") from error
        except Exception as error:  # whatever numpy's parser makes of a damaged header
            raise UserError(f"{path} is corrupt ({one_line(error)}); {REMEDY}") from error

    def _checked(self, record: FileRecord) -> Path:
        """Returns the path of a file after checking that it exists and has the size in the manifest."""
        path = self.folder / record.name
        check_inside(self.folder, path)
        try:
            size = path.stat().st_size
        except FileNotFoundError:
            raise UserError(f"{path} is missing; {REMEDY}") from None
        except OSError as error:
            raise UserError(f"cannot read {path}: {error.strerror}; correct its permissions, or {REMEDY}") from error
        if size != record.bytes:
            raise UserError(f"{path} has {size:,} bytes where the manifest says {record.bytes:,}; {REMEDY}")
        return path

    def _check_shapes(self, number: int, shard: ShardRecord) -> None:
        """Raises UserError unless offsets and values fit; else a corrupt header would cause a crash much later."""
        for name, spec in self.features.items():
            offsets, values = self._offsets[number][name], self._values[number][name]
            fits = offsets.shape == (shard.examples + 1,) and values.shape[1:] == item_shape(spec)
            fits = fits and values.dtype == stored_dtype(spec) and offsets.dtype == np.int64
            if not fits or offsets[0] != 0 or offsets[-1] != len(values):
                raise UserError(
                    f"{self.folder / shard.offsets[name].name} does not fit {shard.values[name].name}; {REMEDY}"
                )


def checked_columns(reader: SplitReader, columns: Mapping[str, str] | None) -> dict[str, str]:
    """Returns feature name to stored feature name; if `columns` is None, all features under their own names.

    Raises:
        UserError: the data has no such feature.
    """
    columns = dict(columns) if columns is not None else {name: name for name in reader.features}
    for stored in columns.values():
        if stored not in reader.features:
            raise UserError(
                f"feature {stored!r}: the data of {reader.problem} in {reader.folder} has no such feature; "
                f"{did_you_mean(stored, reader.features)}it has {', '.join(reader.features)}"
            )
    return columns


def sequences_of(reader: SplitReader, columns: Mapping[str, str]) -> dict[str, str]:
    """Returns the columns that are sequences."""
    return {name: stored for name, stored in columns.items() if reader.is_sequence(stored)}
