"""Reads `model.bin`, the weights of CTranslate2, without CTranslate2; each of its scalar attributes must be used.

The file has a version, name and revision of the model's specification, the variables, and aliases for equal variables.
Numbers are little-endian; a name is its length and its bytes, with a trailing zero. Source of the layout:
`model_spec.py` of CTranslate2, versions 4 to 6 of the file.
"""

import math
import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from t2t.checkpoints.arrays import Arrays
from t2t.errors import UserError

_TYPES = ("float32", "int8", "int16", "int32", "float16", "bfloat16")
"""Numpy types by their code in the file; `t2t.checkpoints.arrays` registers bfloat16."""
VERSIONS = (4, 5, 6)
"""Versions of the format that are read."""


@dataclass(frozen=True)
class ModelFile:
    """The content of a file: tensors, and scalar attributes."""

    specification: str
    """Name of the kind of network."""
    revision: int
    tensors: Arrays
    """Variables with axes, aliases included."""
    attributes: dict[str, np.ndarray]
    """Variables without axes."""


def parse_model(content: bytes) -> ModelFile:
    """Parses the content of a file; the arrays are read-only views of it.

    Raises:
        ValueError: the content is damaged, truncated, or of another version.
    """
    stream = _Stream(content)
    version = stream.number("I")
    if version not in VERSIONS:
        raise ValueError(f"it is of version {version} of the format; versions {VERSIONS[0]} to {VERSIONS[-1]} are read")
    name, revision = stream.text(), stream.number("I")
    variables = dict(_variable(stream) for _ in range(stream.number("I")))
    for _ in range(stream.number("I")):
        alias, original = stream.text(), stream.text()
        if original not in variables:
            raise ValueError(f"{alias} is another name of {original}, which it has not")
        variables[alias] = variables[original]
    if stream.left:
        raise ValueError(f"{stream.left:,} bytes follow its end")
    return ModelFile(
        name,
        revision,
        {name: array for name, array in variables.items() if array.ndim},
        {name: array for name, array in variables.items() if not array.ndim},
    )


class _Stream:
    """Reads values from bytes, one after the other."""

    def __init__(self, content: bytes):
        self._content, self._place = memoryview(content), 0

    @property
    def left(self) -> int:
        """Number of bytes left."""
        return len(self._content) - self._place

    def bytes(self, size: int) -> memoryview:
        """Returns the next bytes; raises ValueError if there are fewer."""
        if size > self.left:
            raise ValueError(f"it is cut short: {size:,} bytes are wanted, {self.left:,} are left")
        self._place += size
        return self._content[self._place - size : self._place]

    def number(self, form: str) -> int:
        """Returns the next number, in a format of `struct`."""
        found: int = struct.unpack(f"<{form}", self.bytes(struct.calcsize(form)))[0]
        return found

    def text(self) -> str:
        """Returns the next name."""
        try:
            return bytes(self.bytes(self.number("H"))).decode().removesuffix("\0")
        except UnicodeDecodeError as error:
            raise ValueError("one of its names is not text") from error


def _variable(stream: _Stream) -> tuple[str, np.ndarray]:
    """Returns name and value of the next variable."""
    name = stream.text()
    shape = tuple(stream.number("I") for _ in range(stream.number("B")))
    kind, size = stream.number("B"), stream.number("I")
    if kind >= len(_TYPES):
        raise ValueError(f"{name} is of type {kind}, which is not known")
    dtype = np.dtype(_TYPES[kind])
    if math.prod(shape) * dtype.itemsize != size:
        raise ValueError(f"{name} has shape {shape} of {dtype} and {size:,} bytes, which do not fit")
    return name, np.frombuffer(stream.bytes(size), dtype).reshape(shape)


_UNUSED = ("alibi_use_positive_positions", "scale_alibi", "multi_query_attention", "embeddings_merge")
"""Attributes that do not affect a Transformer here, whose inputs have one embedding table."""


class Attributes:
    """Scalar attributes by name; `finish` checks that all have been read.

    Args:
        values: numpy scalars; flags are int8.
        origin: the file, for messages.
    """

    def __init__(self, values: Mapping[str, np.ndarray], origin: str):
        self._values, self._origin, self._read = values, origin, set[str]()

    def get(self, name: str, default: Any = None) -> Any:
        """Returns an attribute, or the default if it is missing."""
        self._read.add(name)
        return self._values[name].item() if name in self._values else default

    def same(self, names: Sequence[str], default: Any = None) -> Any:
        """Returns the common value of several attributes; raises UserError if they differ."""
        found = {name: self.get(name, default) for name in names}
        if len(set(found.values())) > 1:
            given = ", ".join(f"{name}={value}" for name, value in found.items())
            raise UserError(f"{self._origin} has {given}", "the models here have one value for all")
        return next(iter(found.values()))

    def of_stacks(self, name: str, default: Any = None) -> Any:
        """Returns the common value of encoder and decoder, or in old files that of the model."""
        return self.same([f"{side}/{name}" for side in ("encoder", "decoder")], self.get(name, default))

    def embedding_scale(self, side: str, width: int) -> float:
        """Returns the scale of a stack's embeddings: a flag means sqrt(width) or 1, a number is the scale itself."""
        tables = [f"{side}/embeddings{number}/multiply_by_sqrt_depth" for number in ("", "_0")]
        names = [name for name in (f"{side}/scale_embeddings", *tables) if name in self._values]
        if not names:
            return math.sqrt(width)
        value = self.get(names[0])
        is_flag = self._values[names[0]].dtype == np.int8
        return float(value) if not is_flag else math.sqrt(width) if value else 1.0

    def finish(self) -> None:
        """Raises UserError if an attribute has not been read; the message names all of them."""
        left = [name for name in sorted(self._values) if name not in self._read and not name.endswith(_UNUSED)]
        if left:
            given = ", ".join(f"{name}={self._values[name].item()}" for name in left)
            raise UserError(f"{self._origin} has {given}, which the models here have not", "it cannot be imported")
