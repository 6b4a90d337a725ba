"""The numbers that a file of CTranslate2 has besides its tensors, each of which must be read."""

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from t2t.errors import UserError

_UNUSED = (
    "alignment_layer", "alignment_heads", "alibi_use_positive_positions", "scale_alibi", "multi_query_attention",
    "embeddings_merge",
)  # fmt: skip
"""They decide no probability of a Transformer here, whose inputs have one table."""


class Attributes:
    """Numbers by name.

    Args:
        values: scalars of numpy; flags are int8.
        origin: the file, for messages.
    """

    def __init__(self, values: Mapping[str, np.ndarray], origin: str):
        self._values, self._origin, self._read = values, origin, set[str]()

    def get(self, name: str, default: Any = None) -> Any:
        """Returns a number, the default where there is none."""
        self._read.add(name)
        return self._values[name].item() if name in self._values else default

    def same(self, names: Sequence[str], default: Any = None) -> Any:
        """Returns the number that all of these have; raises UserError where they differ."""
        found = {name: self.get(name, default) for name in names}
        if len(set(found.values())) > 1:
            given = ", ".join(f"{name}={value}" for name, value in found.items())
            raise UserError(f"{self._origin} has {given}; the models here have one value for all")
        return next(iter(found.values()))

    def of_stacks(self, name: str, default: Any = None) -> Any:
        """Returns the number that encoder and decoder have, or in old files the model."""
        return self.same([f"{side}/{name}" for side in ("encoder", "decoder")], self.get(name, default))

    def embedding_scale(self, side: str, width: int) -> float:
        """Returns what the embeddings of a stack are multiplied by: a flag says sqrt(width) or 1, a number itself."""
        tables = [f"{side}/embeddings{number}/multiply_by_sqrt_depth" for number in ("", "_0")]
        names = [name for name in (f"{side}/scale_embeddings", *tables) if name in self._values]
        if not names:
            return math.sqrt(width)
        value = self.get(names[0])
        is_flag = self._values[names[0]].dtype == np.int8
        return float(value) if not is_flag else math.sqrt(width) if value else 1.0

    def finish(self) -> None:
        """Raises UserError where nothing has read a number; the message names all."""
        left = [name for name in sorted(self._values) if name not in self._read and not name.endswith(_UNUSED)]
        if left:
            given = ", ".join(f"{name}={self._values[name].item()}" for name in left)
            raise UserError(f"{self._origin} has {given}, which the models here have not; it cannot be imported")
