"""Maps .npy files into memory one behind the other, so that one gather reaches the items of all of them.

Python's own maps each keep a file open, and a gather over an array for each file is a loop: both would bound the number
of files. Here a range of addresses is reserved, every file is mapped into it, and none stays open.

Letters: N requested ranges of items.
"""

import contextlib
import ctypes
import dataclasses
import functools
import math
import mmap
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from t2t.data.columns import ranges
from t2t.data.manifest import FileRecord

_FIXED = 0x10
"""MAP_FIXED, on Linux, macOS and BSD: map to exactly this address."""

_ALIGNED = 16
"""Bytes; in every .npy file the array begins at a multiple of it."""


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
        return FileRecord.of(self._path)

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


@dataclasses.dataclass(frozen=True)
class NpyHeader:
    """The description of a .npy file."""

    path: Path
    shape: tuple[int, ...]
    dtype: np.dtype
    start: int
    """Byte at which the array begins."""
    stop: int
    """Byte behind its end, which is that of the file."""

    @classmethod
    def read(cls, path: Path) -> "NpyHeader":
        """Reads the description; unlike `np.load`, it reads no pickles and no archives.

        Raises:
            OSError: the file cannot be read.
            ValueError: it is not a .npy file of this form, or is cut off; numpy's parser may raise other errors.
        """
        with path.open("rb") as file:
            version = np.lib.format.read_magic(file)
            if version != (1, 0):
                raise ValueError(f"its version is {version}")
            shape, by_columns, dtype = np.lib.format.read_array_header_1_0(file)
            start, size = file.tell(), os.fstat(file.fileno()).st_size
        count = math.prod(shape)
        if by_columns or dtype.hasobject or start % _ALIGNED or start + count * dtype.itemsize != size:
            raise ValueError(f"its header has {dtype} of shape {shape} where it has {size - start:,} bytes")
        return cls(path, shape, dtype, start, size)


class MappedFiles:
    """Arrays in files, read-only; `self[n]` is that of file n.

    Raises:
        OSError: a file cannot be mapped, or they are too many for the system's limit on maps.
    """

    def __init__(self, headers: Sequence[NpyHeader]):
        self._headers, step = headers, mmap.ALLOCATIONGRANULARITY
        *offsets, end = np.cumsum([0] + [-(-header.stop // step) * step for header in headers]).tolist()
        self._memory = np.frombuffer(mmap.mmap(-1, max(1, end), mmap.MAP_PRIVATE, mmap.PROT_READ), np.uint8)
        for header, offset in zip(headers, offsets, strict=True):
            _map(header, self._memory.ctypes.data + offset)
        self._starts = np.array([offset + header.start for offset, header in zip(offsets, headers, strict=True)])

    def __getitem__(self, number: int) -> np.ndarray:
        header, start = self._headers[number], int(self._starts[number])
        return self._memory[start : start + header.stop - header.start].view(header.dtype).reshape(header.shape)

    def items(self, numbers: np.ndarray, positions: np.ndarray) -> np.ndarray:
        """Returns items, (N, *item_shape): of file `numbers[i]` the one at `positions[i]`; see `gather`."""
        items, firsts, width = self._items
        return items[firsts[numbers] + positions * width]

    def gather(self, numbers: np.ndarray, positions: np.ndarray, lengths: np.ndarray) -> np.ndarray:
        """Returns consecutive items of files: of file `numbers[i]` the `lengths[i]` ones from `positions[i]` on.

        The arrays of all files must have one dtype and one shape of items.

        Returns:
            Concatenated items, (sum of lengths, *item_shape).
        """
        items, firsts, width = self._items
        return items[ranges(firsts[numbers] + positions * width, lengths, width)]

    @functools.cached_property
    def _items(self) -> tuple[np.ndarray, np.ndarray, int]:
        """All memory as items, where the first of each file is, and how far one is from the next.

        There is an item at each value, as the files need not begin at multiples of an item's size.
        """
        dtype, shape = self._headers[0].dtype, self._headers[0].shape[1:]
        values, width = self._memory.view(dtype), int(np.prod(shape, dtype=np.int64))
        strides = (dtype.itemsize, *np.empty((1, *shape), dtype).strides[1:])
        count = max(0, len(values) - width + 1)
        items = np.lib.stride_tricks.as_strided(values, (count, *shape), strides, writeable=False)
        return items, self._starts // dtype.itemsize, width


@functools.cache
def _system_mmap() -> Any:
    function = ctypes.CDLL(None, use_errno=True).mmap
    function.restype = ctypes.c_void_p
    function.argtypes = (ctypes.c_void_p, ctypes.c_size_t, *[ctypes.c_int] * 3, ctypes.c_longlong)
    return function


def _map(header: NpyHeader, address: int) -> None:
    """Maps a file to an address of memory that this process owns."""
    with header.path.open("rb") as file:
        if os.fstat(file.fileno()).st_size != header.stop:  # reading behind its end would kill the process
            raise OSError(0, "it is being changed", str(header.path))
        kind = mmap.MAP_SHARED | _FIXED
        found = _system_mmap()(address, header.stop, mmap.PROT_READ, kind, file.fileno(), 0)
    if found != address:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number), str(header.path))
