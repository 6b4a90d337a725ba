"""Batches of few shapes: XLA compiles a program for each shape that it meets. Loads no JAX.

Legend: B rows of a batch, C sampled candidates of each, T length; R replicas.
"""

from collections.abc import Mapping, Sequence

import numpy as np

from t2t.data.columns import SEQUENCES
from t2t.data.reading.batching import pad_to, padded_size
from t2t.specs import CANDIDATES, POSITIONS, TARGETS
from t2t.specs.features import FeatureKind, ProblemSpec

Features = Mapping[str, np.ndarray]
Shape = Mapping[str, tuple[int, ...]]
"""Feature -> shape in a batch."""

_STEPS = {"parts": 8, "least": 8}
"""For `padded_size`: at most 1/9 of a long padded axis is padding."""


class Padding:
    """Pads the batches of several replicas to one shape with zeros.

    Batches with other features than sequences are not padded: an empty row would count as an example.

    Args:
        spec: of the problem.
        longest: the model's maximum sequence length, in ids; None for no limit.
    """

    def __init__(self, spec: ProblemSpec, longest: int | None):
        kinds = {name: feature.kind for name, feature in spec.features.items()}
        self._kinds = kinds | {POSITIONS[name]: kind for name, kind in kinds.items()}  # of packed rows, as wide as ids
        self._longest = longest

    def common_shape(self, shapes_R: Sequence[Shape]) -> Shape | None:
        """Returns the shape to which the batches of all replicas are padded; None if they cannot be padded to one."""
        rows = {shape[0] for shape in shapes_R[0].values() if shape}
        pads = len(rows) == 1 and bool(self._kinds) and all(kind in SEQUENCES for kind in self._kinds.values())
        common = {name: self._shape(name, [shape[name] for shape in shapes_R], pads) for name in shapes_R[0]}
        return common if pads or all(shape == common for shape in shapes_R) else None

    def _shape(self, name: str, shapes: Sequence[tuple[int, ...]], pads: bool) -> tuple[int, ...]:
        sizes = [max(of_axis) for of_axis in zip(*shapes, strict=True)]
        if pads and sizes:
            sizes[0] = padded_size(sizes[0], **_STEPS)
            is_sampled = name == CANDIDATES  # (B, C, T)
            if is_sampled or name in self._kinds:
                axis = 2 if is_sampled else 1
                wanted = padded_size(sizes[axis], **_STEPS)
                counts_ids = is_sampled or self._kinds[name] == FeatureKind.TOKENS
                sizes[axis] = max(sizes[axis], min(wanted, (counts_ids and self._longest) or wanted))
        return tuple(sizes)


def pad_batches(batches: Sequence[Features], shape: Shape) -> dict[str, np.ndarray]:
    """Returns batches of the same features as arrays (R, B, T, ...)."""
    return {name: np.stack([pad_to(batch[name], sizes) for batch in batches]) for name, sizes in shape.items()}


def empty_batch(shape: Shape, like: Features) -> dict[str, np.ndarray]:
    """Returns a batch of zeros with the features and dtypes of another."""
    return {name: np.zeros(sizes, like[name].dtype) for name, sizes in shape.items()}


def target_sizes(batches: Sequence[Features]) -> np.ndarray:
    """Returns the number of target tokens of each batch, including its padding, (R,) float32."""
    return np.array([batch[TARGETS].size for batch in batches], np.float32)


# === Sizes for decoding ===


def padded_rows(rows: int) -> int:
    """Returns the number of rows that a batch of `rows` is padded to: a power of two, or one and a half of it.

    >>> [padded_rows(rows) for rows in (1, 2, 3, 4, 5, 9, 13, 100)]
    [1, 2, 3, 4, 6, 12, 16, 128]
    """
    return padded_size(rows, parts=2)


def padded_length(length: int) -> int:
    """Returns the length that rows of `length` are padded to: a multiple of 8, for long rows a larger one.

    >>> [padded_length(length) for length in (1, 8, 9, 33, 65, 130, 1000)]
    [8, 8, 16, 40, 80, 160, 1024]
    """
    return padded_size(length, parts=4, least=8)


def padded_states(states: int) -> int:
    """Returns the number of states that constraints with `states` are padded to: a multiple of 32, as `padded_rows`.

    >>> [padded_states(states) for states in (3, 33, 65, 130, 1000)]
    [32, 64, 96, 192, 1024]
    """
    return padded_size(states, parts=2, least=32)


def padded_edges(edges: int) -> int:
    """Returns the number of edges of a state that constraints with `edges` are padded to; 0 stays 0.

    >>> [padded_edges(edges) for edges in (0, 1, 4, 5, 10, 17, 1000)]
    [0, 4, 4, 8, 12, 24, 1024]
    """
    return padded_size(edges, parts=2, least=4) if edges else 0
