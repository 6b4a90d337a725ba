"""Low-rank adapters of a model's weights: LoRA (Hu et al. 2022, arXiv:2106.09685).

Legend: D input width, O output width, R rank; `...` leading axes, such as the experts of a layer.
"""

import contextlib
from collections.abc import Mapping, Sequence

import keras
from keras import ops

from t2t.layers.tensors import Tensor
from t2t.specs import ADAPTER_FACTORS


class Adapters:
    """Changes some weights W of a model to W + s A B, s = alpha / R (section 4.1, equation 3).

    Vectors are rows here, so the paper's B A is A B. A, (..., D, R), is normal with variance 1 / D; B, (..., R, O), is
    zero, so that the model is unchanged at first. Every weight of the model is frozen; its batch norms use their moving
    statistics. Weights of any layer can be changed, see `adapted`.

    Args:
        model: built; if under the scope of a distribution strategy, create the adapters under it, too.
        weights: those to change, each with two or more axes.
        rank: R.
        alpha: s R.
    """

    def __init__(self, model: keras.Model, weights: Sequence[keras.Variable], rank: int, alpha: float):
        self.weights, self.rank, self.scale = list(weights), rank, alpha / rank
        for variable in model.trainable_variables:
            variable.trainable = False
        self._factors = [self._build_factors(weight) for weight in self.weights]

    @property
    def variables(self) -> list[keras.Variable]:
        """A and B of each weight, in the order of the weights."""
        return [factor for factors in self._factors for factor in factors]

    def adapted(self, values: Mapping[str, Tensor]) -> list[tuple[keras.Variable, Tensor]]:
        """Returns each weight with its W + s A B, from the values of weights and factors by path.

        In a `keras.StatelessScope` with these pairs, layers read the sums in place of the weights.
        """
        return [
            (weight, values[weight.path] + ops.matmul(values[a.path], values[b.path]) * self.scale)
            for weight, (a, b) in zip(self.weights, self._factors, strict=True)
        ]

    def _build_factors(self, weight: keras.Variable) -> tuple[keras.Variable, keras.Variable]:
        *others, inputs, outputs = weight.shape
        normal = keras.initializers.RandomNormal(stddev=inputs**-0.5)
        with contextlib.ExitStack() as stack:
            for part in weight.path.split("/"):
                stack.enter_context(keras.name_scope(part))
            a = keras.Variable(normal, (*others, inputs, self.rank), dtype="float32", name=ADAPTER_FACTORS[0])
            b = keras.Variable("zeros", (*others, self.rank, outputs), dtype="float32", name=ADAPTER_FACTORS[1])
        return a, b
