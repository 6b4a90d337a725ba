"""The residual connection around a sub-layer (section 3.1), and layers composed of others.

Legend: D width; leading axes of any number.
"""

from collections.abc import Iterable

import keras

from t2t.layers.dropout import Dropout
from t2t.layers.norm import build_norm


class Residual(keras.layers.Layer):
    """LayerNorm(x + Dropout(Sublayer(x))) as in the paper (post), or x + Dropout(Sublayer(LayerNorm(x))) (pre).

    The sub-layer is built by the owner of this layer, so its weights have paths beside those of the norm.

    Args:
        layer: the sub-layer, whose output has the shape of its input.
        norm_position: `post` or `pre`.
        epsilon: added to the variance.
        dropout: rate on the sub-layer's output (section 5.4).
        norm_type: see `build_norm`.
    """

    def __init__(
        self,
        layer: keras.layers.Layer,
        norm_position: str,
        epsilon: float,
        dropout: float,
        norm_type: str = "layer",
        **kwargs,
    ):
        super().__init__(**kwargs)
        self.layer, self.norm_position = layer, norm_position
        self.norm = build_norm(norm_type, epsilon, dtype=self.dtype_policy, name="norm")
        self.dropout = Dropout(dropout, dtype=self.dtype_policy, name="dropout")

    def build(self, input_shape):
        """Builds the norm for inputs (..., D)."""
        self.norm.build(input_shape)
        self.dropout.build()

    def before(self, x):
        """Returns the sub-layer's input for `x` (..., D)."""
        return self.norm(x) if self.norm_position == "pre" else x

    def __call__(self, x, seed=None, **given):
        """Returns (..., D), as `x`; further arguments are passed to the sub-layer."""
        # Not `call`: Keras does not take arbitrary keyword arguments of which only some are tensors.
        y = self.layer(self.before(x), seed=seed, **given)
        joined = x + self.dropout(y, seed=seed)
        return self.norm(joined) if self.norm_position == "post" else joined


class CompositeLayer(keras.layers.Layer):
    """A layer whose parts all take inputs of the same shape; they are built in the order of their creation."""

    def build(self, input_shape=None):
        """Builds every part."""
        build_parts(self, input_shape)


def build_parts(owner: keras.layers.Layer, input_shape) -> None:
    """Builds all layers in attributes of a layer or model, in the order of their creation, but those that are built."""
    attributes = keras.tree.flatten(list(vars(owner).values()))
    parts = {id(part): part for part in attributes if isinstance(part, keras.layers.Layer) and not part.built}
    build_all(parts.values(), input_shape)


def build_all(parts: Iterable[keras.layers.Layer | None], input_shape) -> None:
    """Builds layers for inputs of one shape, and the sub-layers of residual connections; skips None."""
    for part in parts:
        if isinstance(part, Residual):
            part.layer.build(input_shape)
        if part is not None:
            part.build(input_shape)
