"""Attention probabilities: computed here for every layer that attends, and recorded on request.

Legend: B batch, H heads, T queries, S keys.
"""

import contextvars
from contextlib import AbstractContextManager
from typing import Any

from keras import ops

from t2t.layers.contexts import entry_name, held
from t2t.layers.masks import score_bias

Record = dict[str, list[Any]]
"""Path of a layer, or its `entry_name` -> the weights of each of its calls, (B, H, T, S) float32, in order."""

_record: contextvars.ContextVar[Record | None] = contextvars.ContextVar("record", default=None)


def recorded_attention() -> AbstractContextManager[Record]:
    """Returns a context whose value is the record to which every attention adds its weights.

    Weights may be used only where they were computed: eagerly, or within the same program. Attention is computed over
    whole matrices within the context, since blockwise attention never holds its weights.
    """
    return held(_record, {})


def looks_at_source(path: str) -> bool:
    """Returns whether the layer of a path attends to the source, and not to its own sequence."""
    return not path.endswith("self_attention")


def is_recorded() -> bool:
    """Returns whether attention weights are being recorded."""
    return _record.get() is not None


def probabilities(scores, keep, layer: str):
    """Returns the softmax over the keys (section 3.2.1 of *Attention Is All You Need*), float32.

    Args:
        scores: (B, H, T, S), or (B, T, S) of one head; preferably float32, see `float32_product`.
        keep: bool, broadcastable to the scores; True = may be attended to. None for all.
        layer: path of the layer.
    """
    scores = ops.cast(scores, "float32")
    weights = ops.softmax(scores if keep is None else scores + score_bias(keep), axis=-1)
    record = _record.get()
    if record is not None:
        record.setdefault(entry_name(layer), []).append(weights if len(weights.shape) == 4 else weights[:, None])
    return weights
