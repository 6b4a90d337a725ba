"""Matrix products with float32 results for any operands: for scores that go into a softmax or a ranking.

In bfloat16 a score of 30 would be off by up to 0.06, and its probability by 6 percent.

Legend: T and S rows of the operands, K the axis that is summed over.
"""

from keras import ops

from t2t.layers.contexts import custom_gradient


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
