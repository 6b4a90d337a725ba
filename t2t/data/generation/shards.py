"""Writes the shards of a split: for each feature a .npy file of concatenated values and one of offsets into it.

`.npy` because numpy can memory-map it: scattered examples are read with one gather per feature.
"""

import contextlib
import os
from pathlib import Path
from typing import BinaryIO

import numpy as np

from t2t.data.columns import FeatureColumn, item_shape, stored_dtype
from t2t.data.manifest import ColumnTotals, FileRecord, ShardRecord
from t2t.files.atomic import os_errors_as_machine_errors, sha256_of
from t2t.specs.features import FeatureSpec

MOST_EXAMPLES = 1_000_000
"""Examples in one shard."""

MOST_BYTES = 256 << 20
"""Bytes of values in one shard, all features together."""


class ShardWriter:
    """Writes one split, shard after shard, in bounded memory."""

    def __init__(
        self,
        folder: Path,
        split: str,
        features: dict[str, FeatureSpec],
        most_examples: int = MOST_EXAMPLES,
        most_bytes: int = MOST_BYTES,
    ):
        self._folder, self._split, self._features = Path(folder), split, features
        self._most_examples, self._most_bytes = most_examples, most_bytes
        self._shards: list[ShardRecord] = []
        self._open: _OpenShard | None = None
        self._items = dict.fromkeys(features, 0)
        self._longest = dict.fromkeys(features, 0)
        self.examples = 0

    def write(self, columns: dict[str, FeatureColumn]) -> None:
        """Appends examples; those of one call go to the same shard, unless they are more than one shard can hold.

        Raises:
            MachineError: the disk is full, or the folder is not writable.
        """
        rows = len(next(iter(columns.values())).lengths)
        for start in range(0, rows, self._most_examples):
            self._write_part(columns if rows <= self._most_examples else _rows(columns, start, self._most_examples))

    def _write_part(self, columns: dict[str, FeatureColumn]) -> None:
        rows = len(next(iter(columns.values())).lengths)
        size = sum(column.values.nbytes for column in columns.values())
        shard = self._open
        if shard and (shard.examples + rows > self._most_examples or shard.bytes + size > self._most_bytes):
            self._close_shard(shard)
        with os_errors_as_machine_errors(f"cannot write {self._folder}"):
            if self._open is None:
                self._open = _OpenShard(self._folder, f"{self._split}-{len(self._shards):05d}", self._features)
            self._open.write(columns)
        for name, column in columns.items():
            self._items[name] += len(column.values)
            self._longest[name] = max(self._longest[name], int(column.lengths.max(initial=0)))
        self.examples += rows

    def finish(self) -> tuple[dict[str, ColumnTotals], list[ShardRecord]]:
        """Closes the last shard and gives every file its final name, `<split>-00000-of-00004.<feature>.values.npy`.

        Returns:
            Totals by feature, and the shards in order.

        Raises:
            MachineError: the disk is full, or the folder is not writable.
        """
        if self._open is not None:
            self._close_shard(self._open)
        totals = {name: ColumnTotals(items=self._items[name], longest=self._longest[name]) for name in self._features}
        return totals, [self._rename(number, shard) for number, shard in enumerate(self._shards)]

    def close(self) -> None:
        """Closes the open files without finishing them."""
        if self._open is not None:
            self._open.abandon()
            self._open = None

    def _close_shard(self, shard: "_OpenShard") -> None:
        with os_errors_as_machine_errors(f"cannot write {self._folder}"):
            self._shards.append(shard.close())
        self._open = None

    def _rename(self, number: int, shard: ShardRecord) -> ShardRecord:
        before = f"{self._split}-{number:05d}"
        after = f"{before}-of-{len(self._shards):05d}"

        def rename_record(record: FileRecord) -> FileRecord:
            name = after + record.name.removeprefix(before)
            with os_errors_as_machine_errors(f"cannot write {self._folder / name}"):
                os.replace(self._folder / record.name, self._folder / name)
            return FileRecord(name=name, bytes=record.bytes, sha256=record.sha256)

        return ShardRecord(
            examples=shard.examples,
            values={name: rename_record(record) for name, record in shard.values.items()},
            offsets={name: rename_record(record) for name, record in shard.offsets.items()},
        )


class _OpenShard:
    """The files of the shard that is being written."""

    def __init__(self, folder: Path, stem: str, features: dict[str, FeatureSpec]):
        self.examples = self.bytes = 0
        self._values: dict[str, NpyFile] = {}
        self._offsets: dict[str, NpyFile] = {}
        self._ends = dict.fromkeys(features, 0)
        for name, spec in features.items():
            self._values[name] = NpyFile(folder / f"{stem}.{name}.values.npy", stored_dtype(spec), item_shape(spec))
            self._offsets[name] = NpyFile(folder / f"{stem}.{name}.offsets.npy", np.dtype("<i8"), ())
            self._offsets[name].append(np.zeros(1, np.int64))

    def write(self, columns: dict[str, FeatureColumn]) -> None:
        for name, column in columns.items():
            self._values[name].append(column.values)
            self._offsets[name].append(self._ends[name] + np.cumsum(column.lengths))
            self._ends[name] += len(column.values)
            self.bytes += column.values.nbytes
        self.examples += len(column.lengths)

    def close(self) -> ShardRecord:
        return ShardRecord(
            examples=self.examples,
            values={name: file.close() for name, file in self._values.items()},
            offsets={name: file.close() for name, file in self._offsets.items()},
        )

    def abandon(self) -> None:
        for file in [*self._values.values(), *self._offsets.values()]:
            file.abandon()


class NpyFile:
    """A .npy file that grows along its first axis."""

    def __init__(self, path: Path, dtype: np.dtype, tail: tuple[int, ...]):
        self._path, self._dtype, self._tail = path, dtype, tail
        self._count = 0
        self._file: BinaryIO = open(path, "wb")  # noqa: SIM115 - closed by close or abandon
        self._write_header()
        self._header_size = self._file.tell()

    def append(self, values: np.ndarray) -> None:
        """Appends entries."""
        self._file.write(np.ascontiguousarray(values, self._dtype).data)
        self._count += len(values)

    def close(self) -> FileRecord:
        """Writes the final count into the header, for which numpy leaves room, and syncs."""
        self._file.seek(0)
        self._write_header()
        if self._file.tell() != self._header_size:
            raise RuntimeError(f"the header of {self._path} outgrew its room")
        self._file.flush()
        os.fsync(self._file.fileno())
        self._file.close()
        return FileRecord(name=self._path.name, bytes=self._path.stat().st_size, sha256=sha256_of(self._path))

    def abandon(self) -> None:
        """Closes the file without finishing it."""
        with contextlib.suppress(OSError):  # a failed flush does not matter: the file is discarded
            self._file.close()

    def _write_header(self) -> None:
        header = {
            "descr": np.lib.format.dtype_to_descr(self._dtype),
            "fortran_order": False,
            "shape": (self._count, *self._tail),
        }
        np.lib.format.write_array_header_1_0(self._file, header)


def _rows(columns: dict[str, FeatureColumn], start: int, count: int) -> dict[str, FeatureColumn]:
    parts = {}
    for name, column in columns.items():
        ends = np.concatenate([[0], np.cumsum(column.lengths)])
        stop = min(start + count, len(column.lengths))
        parts[name] = FeatureColumn(column.values[ends[start] : ends[stop]], column.lengths[start:stop])
    return parts
