"""Reads tensors and plain values of a PyTorch file without executing anything, and without PyTorch.

Such a file is a pickle of a dictionary of tensors, with the numbers stored separately: in a zip archive since PyTorch
1.6 (`<name>/data.pkl` and `<name>/data/<key>`), before that in one stream. A pickle can call any function that its
reader provides. This reader only provides four names, all for tensors, and refuses files that need others, except names
from packages that the caller allows: their objects become records, which hold data and do nothing.
"""

import collections
import contextlib
import functools
import io
import math
import pickle
import reprlib
import struct
import zipfile
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, BinaryIO, Self

import numpy as np

from t2t.checkpoints.arrays import Arrays
from t2t.files.trust import check_pickle

_TYPES = {
    "FloatStorage": "float32", "DoubleStorage": "float64", "HalfStorage": "float16", "BFloat16Storage": "bfloat16",
    "LongStorage": "int64", "IntStorage": "int32", "ShortStorage": "int16", "CharStorage": "int8",
    "ByteStorage": "uint8", "BoolStorage": "bool",
}  # fmt: skip
"""Storage type -> numpy type; `t2t.checkpoints.arrays` registers bfloat16."""
_MAGIC, _PROTOCOL = 0x1950A86A20F9469CFC6C, 1001
"""The first two pickles of a file in one stream."""
_MOST_REPEATED = 256
"""Most bytes of plain values, see `PlainValues`, that a byte of a file may stand for."""


def parse_pytorch(content: bytes) -> Arrays:
    """Returns the tensors in the content of a file, read-only, by name.

    Raises:
        ValueError: not a PyTorch file, damaged, or not a dictionary of tensors.
    """
    return tensors_of(parse_checkpoint(content))


def parse_checkpoint(content: bytes, known: Collection[str] = ()) -> Any:
    """Parses the content of a file into plain values, `StoredTensor`s and `Record`s.

    Objects from the packages in `known`, such as `argparse`, become records; none of their code is imported.

    Raises:
        ValueError: not a PyTorch file, damaged, or with objects from other packages.
    """
    with _damage_as_value_error():
        return _read_zip(content, known) if content[:2] == b"PK" else _read_stream(content, known)


def tensors_of(state: Any) -> Arrays:
    """Returns the tensors of a dictionary, read-only, by name.

    Raises:
        ValueError: not a dictionary of tensors, or a tensor is damaged.
    """
    if not isinstance(state, Mapping):
        raise ValueError(f"it holds {type(state).__name__}, not tensors by name")
    tensors = {str(name): value for name, value in state.items()}
    if other := [name for name, value in tensors.items() if not isinstance(value, StoredTensor)]:
        raise ValueError(f"entry {other[0]!r} is not a tensor; save only the model's state_dict")
    with _damage_as_value_error():
        return {name: tensor.array() for name, tensor in tensors.items()}


@contextlib.contextmanager
def _damage_as_value_error() -> Iterator[None]:
    try:
        yield
    except ValueError:
        raise
    except Exception as error:  # unpickling damaged data raises many kinds
        raise ValueError(f"it is damaged ({type(error).__name__}: {error})") from error


class Record:
    """Stands for an object whose class is not loaded: class name, constructor arguments, and state."""

    name = ""
    """Name of module and class."""
    arguments: tuple[Any, ...]
    state: Any

    def __new__(cls, *arguments: Any) -> Self:
        """Keeps the arguments."""
        record = super().__new__(cls)
        record.arguments, record.state = arguments, None
        return record

    def __setstate__(self, state: Any) -> None:
        """Keeps the state that the pickle sets."""
        self.state = state


class PlainValues:
    """Counts the values copied out of a file: a few bytes can stand for billions if lists are shared.

    Args:
        most: most bytes, 64 for each value and one for each of its characters.
    """

    def __init__(self, most: int) -> None:
        self._left = most

    def count(self, value: Any) -> None:
        """Counts a value; raises ValueError if there are too many."""
        self._left -= 64 + (len(value) if isinstance(value, str) else 0)
        if self._left < 0:
            raise ValueError("its values repeat shared ones too often; it is damaged, or made to fill the memory")


def parse_pytorch_values(content: bytes) -> Any:
    """Parses the content of a file into dictionaries, lists, texts and numbers, with tensors as arrays.

    An `argparse.Namespace`, the settings of a command, becomes a dictionary.

    Raises:
        ValueError: not a PyTorch file, damaged, or with other objects.
    """
    state = parse_checkpoint(content, ("argparse",))
    with _damage_as_value_error():
        try:
            return _plain(state, PlainValues(_MOST_REPEATED * len(content)))
        except RecursionError as error:
            raise ValueError("it holds itself; it is damaged") from error


def _plain(value: Any, values: PlainValues) -> Any:
    values.count(value)
    if isinstance(value, Record) and value.name == "argparse.Namespace":
        value = value.state or {}
    if isinstance(value, dict):
        return {name: _plain(part, values) for name, part in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(part, values) for part in value]
    if isinstance(value, StoredTensor):
        return value.array()
    if value is None or isinstance(value, str | int | float):
        return value
    kind = value.name if isinstance(value, Record) else type(value).__name__
    raise ValueError(f"it holds a {kind}, which is not data")


@dataclass
class _Storage:
    """The numbers that tensors are views of, read on demand."""

    dtype: np.dtype
    size: int
    read: Callable[[], bytes] = bytes


@dataclass(frozen=True)
class StoredTensor:
    """A tensor in a file; `array` reads its numbers."""

    storage: _Storage
    offset: int
    shape: tuple[int, ...]
    strides: tuple[int, ...]

    def array(self) -> np.ndarray:
        """Returns the tensor as a view of its storage, after checking the bounds."""
        numbers = np.frombuffer(self.storage.read(), self.storage.dtype)
        sizes = (self.offset, *self.shape, *self.strides)
        if len(self.shape) != len(self.strides) or any(type(size) is not int or size < 0 for size in sizes):
            given = " with strides ".join(map(reprlib.repr, (self.shape, self.strides)))
            raise ValueError(f"a tensor has shape {given}; it is damaged")
        if 0 in self.shape:
            return np.zeros(self.shape, self.storage.dtype)
        last = self.offset + sum((n - 1) * stride for n, stride in zip(self.shape, self.strides, strict=True))
        if last >= len(numbers):
            raise ValueError(f"a tensor ends at number {last + 1:,} of {len(numbers):,}; it is damaged or cut short")
        if math.prod(self.shape) > len(numbers):  # strides of 0 could make a large array from a small file
            raise ValueError(f"a tensor has shape {self.shape} and {len(numbers):,} numbers; save it contiguous")
        strides = [stride * numbers.itemsize for stride in self.strides]
        return np.lib.stride_tricks.as_strided(numbers[self.offset :], self.shape, strides, writeable=False)


class _TensorUnpickler(pickle.Unpickler):
    """Unpickles ordered dictionaries, tensors and their storages, which `find_storage` returns by type, key and size.

    Objects from `known` packages become records.
    """

    def __init__(self, stream: BinaryIO, find_storage: Callable[[str, str, int], _Storage], known: Collection[str]):
        check_pickle(stream)
        super().__init__(stream, encoding="utf-8")
        self._find_storage, self._known = find_storage, known

    def find_class(self, module: str, name: str) -> Any:
        """Returns the object for an allowed name; raises ValueError for any other name."""
        if (module, name) == ("collections", "OrderedDict"):
            return collections.OrderedDict
        if module == "torch._utils" and name in ("_rebuild_tensor_v2", "_rebuild_parameter"):
            return getattr(self, name)
        if module == "torch" and name in _TYPES:
            return name
        if module.partition(".")[0] in self._known:
            if (module, name) == ("collections", "defaultdict"):
                return lambda *_: {}
            return type("Record", (Record,), {"name": f"{module}.{name}"})
        raise ValueError(
            f"it asks for {module}.{name}, which no file of tensors needs; nothing of it was executed; use a "
            f"model.safetensors, or a file from a source that you trust"
        )

    def persistent_load(self, saved_id: Any) -> _Storage:
        """Returns a storage; its id is `("storage", type, key, device, size)`, and in streams a view, which is None."""
        what, kind, key, _device, size, *view = saved_id
        if what != "storage" or kind not in _TYPES or type(size) is not int or any(view):
            raise ValueError(f"a tensor is stored as {reprlib.repr(saved_id)}; such files cannot be read")
        return self._find_storage(kind, str(key), size)

    def _rebuild_tensor_v2(
        self, storage: Any, offset: Any, shape: Sequence[Any], strides: Sequence[Any], *_flags: Any
    ) -> StoredTensor:
        if not isinstance(storage, _Storage):
            raise ValueError("a tensor has no storage; it is damaged")
        return StoredTensor(storage, offset, tuple(shape), tuple(strides))

    def _rebuild_parameter(self, tensor: Any, *_flags: Any) -> Any:
        return tensor


def _read_zip(content: bytes, known: Collection[str]) -> Any:
    archive = zipfile.ZipFile(io.BytesIO(content))
    infos = {info.filename: info for info in archive.infolist()}
    pickles = [name for name in infos if name.count("/") == 1 and name.endswith("/data.pkl")]
    if len(pickles) != 1:
        raise ValueError("it is a zip archive without a data.pkl; it is not a PyTorch file")
    if sum(info.file_size for info in archive.infolist()) > len(content):
        raise ValueError("it unpacks to more than it has, which PyTorch's files never do")
    root = pickles[0].removesuffix("data.pkl")
    storages: dict[str, _Storage] = {}

    def read(name: str) -> bytes:
        if infos[name].compress_type != zipfile.ZIP_STORED:  # what it unpacks to is not known before
            raise ValueError(f"its {name} is compressed, which PyTorch never does")
        return archive.read(infos[name])

    def find(kind: str, key: str, size: int) -> _Storage:
        if key not in storages:
            name = f"{root}data/{key}"
            storages[key] = _Storage(np.dtype(_TYPES[kind]), size, functools.cache(functools.partial(read, name)))
        return storages[key]

    if f"{root}byteorder" in infos and read(f"{root}byteorder") != b"little":
        raise ValueError("its numbers are big-endian; save it on another machine")
    return _TensorUnpickler(io.BytesIO(read(pickles[0])), find, known).load()


def _read_stream(content: bytes, known: Collection[str]) -> Any:
    stream, storages = io.BytesIO(content), dict[str, _Storage]()

    def find(kind: str, key: str, size: int) -> _Storage:
        return storages.setdefault(key, _Storage(np.dtype(_TYPES[kind]), size))

    def load() -> Any:
        return _TensorUnpickler(stream, find, known).load()

    try:
        header = load(), load()
    except (pickle.UnpicklingError, EOFError) as error:
        raise ValueError("it is not a PyTorch file") from error
    if header != (_MAGIC, _PROTOCOL):
        raise ValueError("it is not a PyTorch file")
    load()  # facts of the machine that wrote the file, unused
    state, keys = load(), load()
    for key in keys:
        storage = storages[str(key)]
        (size,) = struct.unpack("<q", stream.read(8))
        numbers = stream.read(size * storage.dtype.itemsize)
        if size != storage.size or len(numbers) != size * storage.dtype.itemsize:
            raise ValueError("it is cut short or damaged")
        storage.read = functools.partial(bytes, numbers)
    return state
