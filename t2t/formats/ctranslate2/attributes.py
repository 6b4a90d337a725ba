"""Scalar attributes of a CTranslate2 file, each of which must be read."""

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from t2t.errors import UserError

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
            raise UserError(f"{self._origin} has {given}; the models here have one value for all")
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
            raise UserError(f"{self._origin} has {given}, which the models here have not; it cannot be imported")
