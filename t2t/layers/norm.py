"""Layer normalisation: Ba et al. 2016 (arXiv:1607.06450), which section 3.1 of the paper puts around each sub-layer.

And RMS normalisation, without mean and offset: Zhang and Sennrich 2019 (arXiv:1910.07467); batch normalisation: Ioffe
and Szegedy 2015 (arXiv:1502.03167), algorithms 1 and 2. The moving statistics of the latter are variables without a
gradient: a forward pass in training assigns them, and the training step collects the assigned values.

Legend: B batch, C channels, D width, N rows; leading axes of any number.
"""

from collections.abc import Callable

import keras
from keras import ops

from t2t.layers.mode import custom_gradient
from t2t.layers.tensors import by_rows

EPSILON = 1e-6
"""Default value added to the variance."""


class LayerNorm(keras.layers.Layer):
    """gamma * (x - mean) / sqrt(variance + epsilon) + beta over the last axis, in float32.

    The same as Keras's layer, including weights and their names, with a hand-written gradient: automatic
    differentiation passes over the activations twenty times, these formulas ten.
    """

    def __init__(self, epsilon: float = EPSILON, **kwargs):
        super().__init__(**kwargs)
        self.epsilon = epsilon

    def build(self, input_shape):
        """Creates gamma, ones, and beta, zeros, for inputs (..., D)."""
        self.gamma = self.add_weight(name="gamma", shape=(input_shape[-1],), initializer="ones", autocast=False)
        self.beta = self.add_weight(name="beta", shape=(input_shape[-1],), initializer="zeros", autocast=False)

    def call(self, x):
        """Returns (..., D) in the type of `x`."""
        return _by_row(_normalised(self.epsilon), x, self.gamma, self.beta)


class RmsNorm(keras.layers.Layer):
    """gamma * x / sqrt(mean(x^2) + epsilon) over the last axis, in float32 (Zhang and Sennrich 2019, equation 4).

    The paper has no epsilon. The gradient is hand-written, as in `LayerNorm`.
    """

    def __init__(self, epsilon: float = EPSILON, **kwargs):
        super().__init__(**kwargs)
        self.epsilon = epsilon

    def build(self, input_shape):
        """Creates gamma, ones, for inputs (..., D)."""
        self.gamma = self.add_weight(name="gamma", shape=(input_shape[-1],), initializer="ones", autocast=False)

    def call(self, x):
        """Returns (..., D) in the type of `x`."""
        return _by_row(_scaled(self.epsilon), x, self.gamma)


def build_norm(kind: str, epsilon: float, **kwargs) -> LayerNorm | RmsNorm:
    """Returns the layer of a kind, `layer` or `rms`."""
    return RmsNorm(epsilon, **kwargs) if kind == "rms" else LayerNorm(epsilon, **kwargs)


def _by_row(function: Callable, x, *weights):
    """Applies a function of float32 rows (N, D) and weights (D,); the result has the shape and type of `x` (..., D)."""
    # Reshaped, since a function with a custom gradient takes tensors but no variables.
    tensors = [ops.reshape(ops.convert_to_tensor(v), (x.shape[-1],)) for v in weights]
    return ops.cast(by_rows(lambda x_ND: function(x_ND, *tensors), ops.cast(x, "float32")), x.dtype)


def _normalised(epsilon: float):
    """Returns the function of (N, D), (D,) and (D,) with its gradient."""

    @custom_gradient
    def normalise(x_ND, gamma_D, beta_D):
        centred_ND = x_ND - ops.mean(x_ND, axis=-1, keepdims=True)
        inverse_N1 = ops.rsqrt(ops.mean(ops.square(centred_ND), axis=-1, keepdims=True) + epsilon)
        unit_ND = centred_ND * inverse_N1

        def gradient(up_ND):
            product_ND = up_ND * unit_ND
            # The gradient of a row is gamma * up without its components along the mean and along x itself.
            along_mean_N1, along_x_N1 = (ops.matmul(g, gamma_D[:, None]) / x_ND.shape[-1] for g in (up_ND, product_ND))
            x_gradient_ND = (up_ND * gamma_D - along_mean_N1 - unit_ND * along_x_N1) * inverse_N1
            return x_gradient_ND, ops.sum(product_ND, axis=0), ops.sum(up_ND, axis=0)

        return unit_ND * gamma_D + beta_D, gradient

    return normalise


def _scaled(epsilon: float):
    """Returns the function of (N, D) and (D,) with its gradient."""

    @custom_gradient
    def scale(x_ND, gamma_D):
        inverse_N1 = ops.rsqrt(ops.mean(ops.square(x_ND), axis=-1, keepdims=True) + epsilon)
        unit_ND = x_ND * inverse_N1

        def gradient(up_ND):
            product_ND = up_ND * unit_ND
            along_x_N1 = ops.matmul(product_ND, gamma_D[:, None]) / x_ND.shape[-1]
            return (up_ND * gamma_D - unit_ND * along_x_N1) * inverse_N1, ops.sum(product_ND, axis=0)

        return unit_ND * gamma_D, gradient

    return scale


class BatchNorm(keras.layers.BatchNormalization):
    """gamma * (x - mean) / sqrt(variance + epsilon) + beta for each of the last axis's channels.

    Mean and variance are those of the batch in calls with a seed, as in training, and otherwise the moving ones. A norm
    whose gamma is frozen always uses the moving ones and does not update them.
    """

    def __init__(self, **kwargs):
        super().__init__(momentum=0.9, epsilon=1e-5, **kwargs)

    def call(self, x, seed=None):
        """Returns (B, ..., C) in the layer's compute type; moments are float32."""
        return super().call(x, training=seed is not None and self.gamma.trainable)
