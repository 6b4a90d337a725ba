"""The probabilities of attention, of every layer that attends: computed here, and kept where somebody asks for them.

Legend: B batch, H heads, T queries, S keys.
"""

import contextvars
from contextlib import AbstractContextManager
from typing import Any

from keras import ops

from t2t.layers.contexts import held
from t2t.layers.masks import score_bias
from t2t.layers.passes import entry_name

Record = dict[str, list[Any]]
"""Path of a layer, or `entry_name` -> what it looked at in each of its calls, (B, H, T, S) float32, in order."""

_record: contextvars.ContextVar[Record | None] = contextvars.ContextVar("record", default=None)


def recorded_attention() -> AbstractContextManager[Record]:
    """Gives the record to which every attention adds its weights within the context.

    For operations that run at once, not for building programs; attention by blocks, which never holds its weights,
    gives way to whole matrices.
    """
    return held(_record, {})


def looks_at_source(path: str) -> bool:
    """Returns whether the layer of a path attends to the source, and not to its own sequence."""
    return not path.endswith("self_attention")


def is_recorded() -> bool:
    """Returns whether somebody wants to see the weights."""
    return _record.get() is not None


def probabilities(scores, keep, layer: str):
    """Returns the softmax over the keys (section 3.2.1 of *Attention Is All You Need*), float32.

    Args:
        scores: (B, H, T, S), or (B, T, S) of one head; best float32 ones, see `float32_product`.
        keep: bool, broadcastable to the scores; True = may be looked at. None for all.
        layer: its path.
    """
    scores = ops.cast(scores, "float32")
    weights = ops.softmax(scores if keep is None else scores + score_bias(keep), axis=-1)
    record = _record.get()
    if record is not None:
        record.setdefault(entry_name(layer), []).append(weights if len(weights.shape) == 4 else weights[:, None])
    return weights
