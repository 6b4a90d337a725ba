"""The gradient of one batch, as a function that is traced once however many replicas call it.

A graph in which each replica has the whole model grows with their number, and so do the minutes before the first update
and the memory that it takes. Here the model is a function of its weights: each replica only calls it with its own.

Legend: P numbers in all weights together.
"""

from collections.abc import Sequence

import keras
import tensorflow as tf

from t2t.models.base import SequenceModel

Tensors = dict[str, tf.Tensor]


class LocalGradient:
    """Sums of losses and their gradients, of a model of one problem or several.

    Args:
        model: under the scope of a strategy or not.
        scales_loss: whether the gradient must fit float16 on its way.
        xla: whether XLA compiles it, one program for each shape of batches; nothing in it waits for the host.
    """

    def __init__(self, model: SequenceModel, scales_loss: bool = False, xla: bool = False):
        self._model, self._scales_loss, self._xla = model, scales_loss, xla
        self._trained = len(model.trainable_variables)
        self._variables = [*model.trainable_variables, *model.non_trainable_variables]
        self._traced: dict[str, tf.types.experimental.ConcreteFunction] = {}
        self._reached: dict[str, list[int]] = {}

    def trace(self, problem: str, features: Tensors) -> None:
        """Prepares the function of a problem, "" of a model of one; any batch of the ranks of `features` fits it.

        It must be called outside of other functions.
        """
        if problem in self._traced:
            return
        signature = (
            [tf.TensorSpec(v.shape, v.dtype) for v in self._variables],
            {name: tf.TensorSpec([None] * tensor.shape.rank, tensor.dtype) for name, tensor in features.items()},
            tf.TensorSpec([2], tf.int64),
            tf.TensorSpec([], tf.float32),
        )

        def local_gradient(*arguments):  # programs of XLA are called as the function is
            return self._compute(problem, *arguments)

        # Inlined, the replicas' parts would be optimized as one large graph; called, each is by itself.
        function = tf.function(
            local_gradient, input_signature=signature, autograph=False, jit_compile=self._xla or None,
            experimental_attributes={"_noinline": True},
        )  # fmt: skip
        self._traced[problem] = function.get_concrete_function()

    def reached(self, problem: str) -> list[int]:
        """Returns the numbers of the weights that a problem's loss depends on; those of other problems it does not."""
        return self._reached[problem]

    def __call__(self, problem: str, weights: Sequence[tf.Tensor], features: Tensors, seed, scale):
        """Returns the gradient of `scale` times the summed loss, (P,) float32, the loss sum, and the target tokens.

        Args:
            problem: whose batch it is; traced before.
            weights: values of this replica, of the variables that are trained and then of the others.
            features: its batch.
            seed: (2,) int64, of its dropout masks.
            scale: () float32.
        """
        return self._traced[problem](list(weights), features, seed, scale)

    def _compute(self, problem: str, weights, features, seed, scale):
        model = self._model.for_problem(problem) if problem else self._model
        mapping = list(zip(self._variables, weights, strict=True))
        # In float16 a sum over thousands of tokens would overflow at any useful scale; their mean does not.
        padded = tf.cast(tf.size(features["targets"]), tf.float32) if self._scales_loss else tf.constant(1.0)
        trained = weights[: self._trained]
        with keras.StatelessScope(state_mapping=mapping), tf.GradientTape() as tape:
            tape.watch(trained)
            loss_sum, tokens = model.loss_sum(model.body(features, seed=seed), features["targets"])
            scaled = loss_sum * (scale / padded)
        gradients = tape.gradient(scaled, trained)
        self._reached[problem] = [number for number, gradient in enumerate(gradients) if gradient is not None]
        flat = [
            tf.zeros([weight.shape.num_elements()]) if gradient is None else tf.reshape(gradient, [-1])
            for weight, gradient in zip(trained, gradients, strict=True)
        ]
        return tf.concat(flat, axis=0) * padded, loss_sum, tokens
