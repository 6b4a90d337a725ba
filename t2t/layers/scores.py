"""Attention's scores and probabilities, for every layer that attends; probabilities are recorded on request.

In bfloat16 a score of 30 would be off by up to 0.06, and its probability by 6 percent.

Legend: B batch, H heads, T queries, S keys, K the axis that is summed over.
"""

from keras import ops

from t2t.layers.masks import score_bias
from t2t.layers.mode import current_mode, custom_gradient, entry_name


def float32_product(x_TK, y_SK):
    """Returns x y^T, (..., T, S) float32, for (..., T, K) and (..., S, K) of one float type and equal leading axes.

    16-bit operands are multiplied as float32: each of their products is exact, also in TensorFloat-32, whose 11
    significant bits hold theirs. Gradients are products in the type of the operands; only the operands are kept for
    them.
    """
    if x_TK.dtype == "float32":
        return ops.matmul(x_TK, _transposed(y_SK))

    @custom_gradient
    def product(x_TK, y_SK):
        def gradient(*args, upstream=None):
            up_TS = ops.cast(args[0] if upstream is None else upstream, x_TK.dtype)
            return ops.matmul(up_TS, y_SK), ops.matmul(_transposed(up_TS), x_TK)

        return ops.matmul(ops.cast(x_TK, "float32"), _transposed(ops.cast(y_SK, "float32"))), gradient

    return product(x_TK, y_SK)


def _transposed(x):
    """Returns x with its last two axes exchanged."""
    return ops.swapaxes(x, -1, -2)


def looks_at_source(path: str) -> bool:
    """Returns whether the layer of a path attends to the source, and not to its own sequence."""
    return not path.endswith("self_attention")


def probabilities(scores, keep, layer: str):
    """Returns the softmax over the keys (section 3.2.1 of *Attention Is All You Need*), float32.

    Args:
        scores: (B, H, T, S), or (B, T, S) of one head; preferably float32, see `float32_product`.
        keep: bool, broadcastable to the scores; True = may be attended to. None for all.
        layer: path of the layer.
    """
    scores = ops.cast(scores, "float32")
    weights = ops.softmax(scores if keep is None else scores + score_bias(keep), axis=-1)
    if (record := current_mode().record) is not None:
        record.setdefault(entry_name(layer), []).append(weights if len(weights.shape) == 4 else weights[:, None])
    return weights
