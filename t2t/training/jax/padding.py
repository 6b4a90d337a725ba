"""Batches of few shapes: XLA compiles a program for each shape that it meets.

Legend: B rows of a batch, T length; R replicas.
"""

from collections.abc import Mapping, Sequence

import numpy as np

from t2t.data.columns import SEQUENCES
from t2t.specs.constants import TARGETS
from t2t.specs.features import ProblemSpec

Features = Mapping[str, np.ndarray]

FINENESS = 8
"""Steps between sizes are an eighth of the power of two below them, 8 at least: of a long axis at most 1/9 is added."""


def padded_size(size: int) -> int:
    """Returns the size that an axis of this size is padded to.

    >>> [padded_size(size) for size in (1, 8, 9, 64, 65, 130, 1000)]
    [8, 8, 16, 64, 72, 144, 1024]
    """
    step = max(FINENESS, 2 ** ((size - 1).bit_length() - 1) // FINENESS) if size > 1 else FINENESS
    return -(-size // step) * step


class Padding:
    """Pads the batches of several replicas to one shape, with zeros, which are no data.

    A batch whose features are not all sequences is left as it is: none of its rows can be empty.

    Args:
        spec: of the problem.
        longest: most positions of a sequence, where the model has a limit.
    """

    def __init__(self, spec: ProblemSpec, longest: int | None):
        self._kinds = {name: feature.kind for name, feature in spec.features.items()}
        self._longest = longest

    def stack(self, batches: Sequence[Features]) -> dict[str, np.ndarray] | None:
        """Returns batches of the same features, one for each replica, as arrays (R, B, T, ...).

        None where their shapes differ and they cannot be padded.
        """
        rows = {len(array) for array in batches[0].values() if array.ndim}
        pads = len(rows) == 1 and bool(self._kinds) and all(kind in SEQUENCES for kind in self._kinds.values())
        shapes = {name: self._shape(name, [batch[name].shape for batch in batches], pads) for name in batches[0]}
        if not pads and any(batch[name].shape != shape for batch in batches for name, shape in shapes.items()):
            return None
        return {name: np.stack([_padded(batch[name], shape) for batch in batches]) for name, shape in shapes.items()}

    def _shape(self, name: str, shapes: Sequence[tuple[int, ...]], pads: bool) -> tuple[int, ...]:
        sizes = [max(of_axis) for of_axis in zip(*shapes, strict=True)]
        if pads and sizes:
            sizes[0] = padded_size(sizes[0])
            if name in self._kinds:
                wanted = padded_size(sizes[1])
                sizes[1] = max(sizes[1], min(wanted, self._longest or wanted))
        return tuple(sizes)


def _padded(array: np.ndarray, shape: Sequence[int]) -> np.ndarray:
    return np.pad(array, [(0, size - own) for size, own in zip(shape, array.shape, strict=True)])


def target_sizes(batches: Sequence[Features]) -> np.ndarray:
    """Returns the number of target tokens of each batch, (R,) float32, with the padding that they come with."""
    return np.array([batch[TARGETS].size for batch in batches], np.float32)
