"""The gradient of one batch, as a function that each replica calls with its own weights.

What a forward pass assigns to statistics is returned with the gradient, for the update to apply.

Legend: P numbers in all weights together, Q numbers in all statistics together.
"""

from collections.abc import Sequence
from typing import Any

import tensorflow as tf

from t2t.layers.adapters import Adapters
from t2t.models.base import SequenceModel
from t2t.training.batch_loss import BatchLossFunction
from t2t.training.objectives import TrainingObjective
from t2t.training.tensorflow.replica_function import ReplicaFunction

Tensors = dict[str, tf.Tensor]


class LocalGradient:
    """Sums of losses, their gradients and changes of statistics, of a model of one problem or several.

    Args:
        model: created within the scope of a strategy or without.
        objective: what is minimized.
        scales_loss: whether the loss is scaled, so that float16 gradients neither overflow nor vanish.
        xla: whether XLA compiles it, one program for each shape of batches; nothing in it waits for the host.
        adapters: trained in place of the weights of the model; None to train the weights.
    """

    def __init__(
        self,
        model: SequenceModel,
        objective: TrainingObjective,
        scales_loss: bool = False,
        xla: bool = False,
        adapters: Adapters | None = None,
    ):
        self._loss = BatchLossFunction(model, objective, adapters)
        self._scales_loss, self._xla = scales_loss, xla
        self._functions: dict[str, ReplicaFunction] = {}
        self._reached: dict[str, list[int]] = {}
        self._assigned: dict[str, list[int]] = {}

    def trace(self, problem: str, variables: Sequence[tf.Variable], features: Tensors) -> None:
        """Traces the function of a problem ("" if the model has one); `features` determine only ranks and dtypes."""
        if problem in self._functions:
            return

        def local_gradient(*arguments):  # XLA names its programs after the function
            return self._compute(problem, *arguments)

        of_any_size = {
            name: tf.TensorSpec([None] * tensor.shape.rank, tensor.dtype) for name, tensor in features.items()
        }
        arguments: tuple[Any, ...] = (list(variables), of_any_size, tf.TensorSpec([2], tf.int64))
        if self._scales_loss:  # else it would be a constant, for which TensorFlow copies the function at each call
            arguments += (tf.TensorSpec([], tf.float32),)
        self._functions[problem] = ReplicaFunction(local_gradient, arguments, self._xla)

    def reached(self, problem: str) -> list[int]:
        """Returns the indices of the trained variables that a problem's loss depends on."""
        return self._reached[problem]

    def statistics(self, problem: str) -> list[int]:
        """Returns the indices, among the untrained variables, of those that a problem's forward pass assigns."""
        return self._assigned[problem]

    def __call__(self, problem: str, variables: Sequence[tf.Variable], features: Tensors, seed, scale):
        """Returns the gradient (P,) of `scale` times the objective, the loss sum, the tokens, and changes.

        The changes are what the forward pass adds to the statistics, times the tokens: a list of one (Q,) float32
        tensor, or an empty list without statistics.

        Args:
            problem: of the batch; must have been traced.
            variables: of this replica, the trained ones first.
            features: the batch.
            seed: (2,) int64, of the dropout masks.
            scale: () float32.
        """
        return self._functions[problem](list(variables), features, seed, *([scale] if self._scales_loss else []))

    def _compute(self, problem: str, variables, features, seed, scale=1.0):
        values = [variable.read_value() for variable in variables]
        # In float16 a sum over thousands of tokens would overflow at any useful scale; their mean does not.
        padded = tf.cast(tf.size(features["targets"]), tf.float32) if self._scales_loss else tf.constant(1.0)
        trained = values[: self._loss.trained]
        with tf.GradientTape() as tape:
            tape.watch(trained)
            found = self._loss(problem, values, features, seed)
            scaled = found.loss.minimized * (scale / padded)
        gradients = tape.gradient(scaled, trained)
        self._reached[problem] = [number for number, gradient in enumerate(gradients) if gradient is not None]
        self._assigned[problem] = [number - self._loss.trained for number in found.statistics]
        changes = [tf.reshape(after - before, [-1]) for before, after in found.statistics.values()]
        flat = [
            tf.zeros([weight.shape.num_elements()]) if gradient is None else tf.reshape(gradient, [-1])
            for weight, gradient in zip(trained, gradients, strict=True)
        ]
        changes = [tf.concat(changes, axis=0) * found.loss.tokens] if changes else []
        return tf.concat(flat, axis=0) * padded, found.loss.loss_sum, found.loss.tokens, changes
