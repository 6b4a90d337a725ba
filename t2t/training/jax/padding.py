"""Batches of few shapes: XLA compiles a program for each shape that it meets.

Legend: B rows of a batch, T length; R replicas.
"""

from collections.abc import Mapping, Sequence

import numpy as np

from t2t.data.columns import SEQUENCES
from t2t.data.padded_sizes import pad_to, padded_size
from t2t.specs.constants import TARGETS
from t2t.specs.features import ProblemSpec

Features = Mapping[str, np.ndarray]

_STEPS = {"parts": 8, "least": 8}
"""Of rows and lengths: at most 1/9 is added to a long axis."""


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
        return {name: np.stack([pad_to(batch[name], shape) for batch in batches]) for name, shape in shapes.items()}

    def _shape(self, name: str, shapes: Sequence[tuple[int, ...]], pads: bool) -> tuple[int, ...]:
        sizes = [max(of_axis) for of_axis in zip(*shapes, strict=True)]
        if pads and sizes:
            sizes[0] = padded_size(sizes[0], **_STEPS)
            if name in self._kinds:
                wanted = padded_size(sizes[1], **_STEPS)
                sizes[1] = max(sizes[1], min(wanted, self._longest or wanted))
        return tuple(sizes)


def target_sizes(batches: Sequence[Features]) -> np.ndarray:
    """Returns the number of target tokens of each batch, (R,) float32, with the padding that they come with."""
    return np.array([batch[TARGETS].size for batch in batches], np.float32)
