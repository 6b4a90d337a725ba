"""Cuts examples into batches of about equal work.

With sequences, `batch_size` counts padded tokens on one side, as in Tensor2Tensor: rows times the length of the longest
source or target, whichever is longer, rounded up. Without sequences it counts examples.
"""

import dataclasses
from collections.abc import Mapping, Sequence

import numpy as np

from t2t.specs import TARGETS

LADDER_STEP = 1.1
"""Default ratio of a width to the next smaller one."""

SHORTEST_WIDTH = 8
"""The first rung of every ladder, except with step 1.0."""


@dataclasses.dataclass(frozen=True)
class Batch:
    """The examples of a batch, and its padded size."""

    indices: np.ndarray
    """(rows,) int64."""
    widths: dict[str, int]
    """Padded length of each sequence feature."""
    rows: int = 0
    """Number of rows to fill up to with empty ones; 0 to add none."""
    row_of_example: np.ndarray | None = None
    """(N,) the row that each example is packed into, ascending; None for one example per row."""


def width_ladder(longest: int, step: float = LADDER_STEP) -> np.ndarray:
    """Returns the widths that batches may have, ascending int64: few, so that a run has few shapes.

    They start at `SHORTEST_WIDTH`; each is `step` times the one before and at least 1 larger. The last one is `longest`
    itself, so that rounding never exceeds the length limit.

    Args:
        longest: longest length that can occur.
        step: ratio of neighbouring widths; 1.0 for exact widths.
    """
    if step < 1.0:
        raise ValueError(f"a ladder of step {step}; it needs at least 1.0")
    longest = max(1, longest)
    if step == 1.0:
        return np.arange(1, longest + 1)
    rungs = [SHORTEST_WIDTH]
    while rungs[-1] < longest:
        rungs.append(max(rungs[-1] + 1, int(rungs[-1] * step)))
    return np.array([rung for rung in rungs if rung < longest] + [longest])


def cut_batches(
    indices: np.ndarray, lengths: Mapping[str, np.ndarray], batch_size: int, ladder: np.ndarray
) -> list[Batch]:
    """Sorts examples by the target's width, then by source length, and cuts them into batches, greedily.

    Source lengths are sorted in alternating directions from one width to the next, so that a batch across two widths
    has sources of similar length.

    Args:
        indices: (N,) examples.
        lengths: by feature, (N,); empty where no feature is a sequence.
        batch_size: padded tokens per side, or examples if no feature is a sequence. A longer example makes a batch of
            one.
        ladder: the widths allowed, see `width_ladder`.

    Returns:
        Batches that hold each example once, those with the shortest targets first.
    """
    if not lengths:
        return [Batch(indices[start : start + batch_size], {}) for start in range(0, len(indices), batch_size)]
    *others, main = sorted(lengths, key=lambda name: name == TARGETS)
    rung = np.searchsorted(ladder, lengths[main])
    rising = np.where(rung % 2 == 0, 1, -1)
    order = np.lexsort([*(lengths[name] * rising for name in others), rung])  # lexsort: the primary key comes last
    indices = indices[order]
    widths = {name: ladder[np.searchsorted(ladder, lengths[name][order])] for name in lengths}
    widest = np.maximum.reduce(list(widths.values()))
    batches, start = [], 0
    while start < len(indices):
        stop = start + _rows_that_fit(widest[start:], batch_size)
        batches.append(
            Batch(indices[start:stop], {name: int(width[start:stop].max()) for name, width in widths.items()})
        )
        start = stop
    return batches


def _rows_that_fit(widest: np.ndarray, batch_size: int) -> int:
    """Returns how many of the first rows fit into a batch, at least 1."""
    reach = widest[: max(1, batch_size // int(widest[0]))]
    cost = np.arange(1, len(reach) + 1) * np.maximum.accumulate(reach)
    return max(1, int(np.searchsorted(cost, batch_size, side="right")))


def padded_size(size: int, parts: int, least: int = 1) -> int:
    """Returns the size that an axis of this size is padded to.

    Args:
        size: length of the axis, at least 1.
        parts: steps between sizes are this fraction, 1/parts, of the largest power of two below; that bounds the
            padding.
        least: the shortest step.

    >>> [padded_size(size, parts=8, least=8) for size in (1, 8, 9, 64, 65, 130, 1000)]
    [8, 8, 16, 64, 72, 144, 1024]
    """
    step = max(least, 2 ** ((size - 1).bit_length() - 1) // parts) if size > 1 else least
    return -(-size // step) * step


def pad_to(array: np.ndarray, sizes: Sequence[int]) -> np.ndarray:
    """Pads an array with zeros at the end of each axis to these sizes."""
    return np.pad(array, [(0, size - own) for size, own in zip(sizes, array.shape, strict=True)])
