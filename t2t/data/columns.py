"""The layout of a feature of many examples in memory and on disk: concatenated values, and the length of each example.

An item is an id (tokens), a class (label), a sample (audio), a vector (real), a frame (video) or a whole image.
"""

import dataclasses

import numpy as np

from t2t.errors import UserError
from t2t.specs import EOS_ID, PAD_ID
from t2t.specs.features import FeatureKind, FeatureSpec

SEQUENCES = frozenset({FeatureKind.TOKENS, FeatureKind.AUDIO, FeatureKind.REAL, FeatureKind.VIDEO})
"""Kinds whose examples differ in length; examples of other kinds have one item each."""

_INTENSITIES = frozenset({FeatureKind.IMAGE, FeatureKind.VIDEO})
"""Kinds whose values are bytes from 0 to 255."""


@dataclasses.dataclass(frozen=True)
class FeatureColumn:
    """One feature of consecutive examples."""

    values: np.ndarray
    """(items, *item_shape), in the stored dtype."""
    lengths: np.ndarray
    """(examples,) int64: items in each."""


def stored_dtype(spec: FeatureSpec) -> np.dtype:
    """Returns the smallest dtype that holds every value of a feature."""
    if spec.kind in (FeatureKind.AUDIO, FeatureKind.REAL):
        return np.dtype("<f4")
    if spec.kind in _INTENSITIES or spec.vocab_size <= 1 << 8:
        return np.dtype("u1")
    return np.dtype("<u2") if spec.vocab_size <= 1 << 16 else np.dtype("<i4")


def batch_dtype(spec: FeatureSpec) -> np.dtype:
    """Returns the dtype in which a feature reaches a model: ids are int32."""
    return np.dtype("i4") if spec.kind in (FeatureKind.TOKENS, FeatureKind.LABEL) else stored_dtype(spec)


def length_unit(spec: FeatureSpec) -> int:
    """Returns the number of items that count as 1 in lengths: for audio, the samples of 10 ms.

    A front end makes about one vector of these, so that batches of speech and of text have similar sizes.
    """
    return max(1, spec.sample_rate // 100) if spec.kind == FeatureKind.AUDIO else 1


def pack(
    arrays: list[np.ndarray], spec: FeatureSpec, name: str, problem: str, method: str = "encode_samples"
) -> FeatureColumn:
    """Checks and concatenates one feature of encoded examples.

    Raises:
        UserError: the spec does not allow a value; the fault lies in the problem's code.
    """
    where = f"feature {name!r} of problem {problem}"
    shape, before = spec.shape, int(spec.kind in SEQUENCES)
    rank = before + len(shape)
    arrays = [np.asarray(array) for array in arrays]
    for array in arrays:
        if array.ndim != rank or array.shape[before:] != shape:
            raise UserError(
                f"{where}: an example of shape {array.shape}; kind {spec.kind.value} has {rank} axes, the last ones "
                f"{shape}",
                f"correct its {method}",
            )
    if spec.kind in SEQUENCES:
        lengths = np.array([len(array) for array in arrays], dtype=np.int64)
        values = np.concatenate(arrays) if arrays else np.zeros((0, *shape))
    else:
        lengths = np.ones(len(arrays), dtype=np.int64)
        values = np.stack(arrays) if arrays else np.zeros((0, *shape))
    _check_values(values, lengths, spec, where, method)
    with np.errstate(over="ignore"):  # values that are too large become infinite, see `first_not_finite`
        return FeatureColumn(values.astype(stored_dtype(spec)), lengths)


def _check_values(values: np.ndarray, lengths: np.ndarray, spec: FeatureSpec, where: str, method: str) -> None:
    if not len(lengths) or spec.kind in (FeatureKind.AUDIO, FeatureKind.REAL):
        return
    if not np.issubdtype(values.dtype, np.integer):
        raise UserError(f"{where}: values of dtype {values.dtype}; it needs integers", f"correct its {method}")
    lowest = PAD_ID + 1 if spec.kind == FeatureKind.TOKENS else 0
    highest = (256 if spec.kind in _INTENSITIES else spec.vocab_size) - 1
    for found in (int(values.min(initial=lowest)), int(values.max(initial=lowest))):
        if not lowest <= found <= highest:
            raise UserError(
                f"{where}: value {found} is outside {lowest}..{highest}", f"correct its {method} or vocabulary"
            )
    if spec.kind == FeatureKind.TOKENS:
        ended = np.zeros(len(lengths), dtype=bool)
        ends = np.cumsum(lengths) - 1
        ended[lengths > 0] = values[ends[lengths > 0]] == EOS_ID
        if not ended.all():
            raise UserError(
                f"{where}: an example does not end in the end of sequence (id {EOS_ID})", f"correct its {method}"
            )


def first_not_finite(column: FeatureColumn) -> int | None:
    """Returns the index of the first example with a value that is nan or infinite; None if there is none."""
    if not np.issubdtype(column.values.dtype, np.floating):
        return None
    finite = np.isfinite(column.values)
    if finite.all():
        return None
    items = finite.reshape(len(finite), -1).all(axis=1)
    return int(np.searchsorted(np.cumsum(column.lengths), np.argmin(items), side="right"))


def repeat(column: FeatureColumn, copies: np.ndarray) -> FeatureColumn:
    """Repeats each example `copies` times, (examples,) integers; 0 leaves it out."""
    if (copies == 1).all():
        return column
    rows = np.repeat(np.arange(len(copies)), copies)
    lengths, starts = column.lengths[rows], (np.cumsum(column.lengths) - column.lengths)[rows]
    return FeatureColumn(column.values[ranges(starts, lengths)], lengths)


def cut(column: FeatureColumn, longest: int) -> FeatureColumn:
    """Cuts each example that is longer than `longest` items into equal parts, which become examples."""
    if (column.lengths <= longest).all():
        return column
    parts = np.maximum(1, -(-column.lengths // longest))
    ends = [length * np.arange(1, count + 1) // count for length, count in zip(column.lengths, parts, strict=True)]
    return FeatureColumn(column.values, np.concatenate([np.diff(end, prepend=0) for end in ends]))


def ranges(starts: np.ndarray, lengths: np.ndarray, step: int = 1) -> np.ndarray:
    """Returns starts[0], starts[0]+step, ... (lengths[0] of them), starts[1], ...: (sum of lengths,) int64."""
    ends = np.cumsum(lengths)
    total = int(ends[-1]) if len(ends) else 0
    return np.arange(0, total * step, step, dtype=np.int64) + np.repeat(starts - (ends - lengths) * step, lengths)


def pad(values: np.ndarray, lengths: np.ndarray, width: int, dtype: np.dtype) -> np.ndarray:
    """Splits concatenated items into rows, padded with zeros.

    Args:
        values: (items, *item_shape).
        lengths: (rows,) items in each row, none above `width`.
        width: items in a row of the result.
        dtype: of the result.

    Returns:
        (rows, width, *item_shape).
    """
    padded = np.zeros((len(lengths), width, *values.shape[1:]), dtype=dtype)
    padded[np.arange(width) < lengths[:, None]] = values
    return padded
