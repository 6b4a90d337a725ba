"""Gradients that are made other than the function's own."""

from keras import ops


def with_scaled_gradient(x, factor: float):
    """Returns `x`, whose gradient is multiplied by `factor` on its way back."""

    @ops.custom_gradient
    def same(x):
        def gradient(*args, upstream=None):
            return (args[0] if upstream is None else upstream) * factor

        return x, gradient

    return same(x)
