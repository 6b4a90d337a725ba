"""Updates the weights by a gradient: decoupled decay, the optimizer's rule, moving average.

Legend: P numbers in all weights together.
"""

from collections.abc import Sequence
from typing import Any, TypeAlias

import keras
import tensorflow as tf

from t2t.backends.tensorflow.functions import ReplicaFunction
from t2t.backends.update import UpdateRules

Gradient: TypeAlias = tf.Tensor | list[tf.Tensor]
"""One vector of all weights, (P,), or its parts, one for each weight that the loss depends on."""


class FusedAdam(keras.optimizers.Adam):
    """Adam (Kingma and Ba 2015, algorithm 1, in the order of operations given at the end of its section 2).

    Keras's Adam has a dozen operations, each of which reads and writes a whole variable; TensorFlow's fused operation
    does the same in one pass. Slots, their names and checkpoints are Keras's.
    """

    def scalars(self, applied=True) -> tuple[Any, ...]:
        """Returns the scalars shared by all weights: the betas, and beta^update of each.

        Args:
            applied: () bool. If False, the betas are 1, so that gradients and rates of 0 change neither weights nor
                slots; a branch would make the device wait for the host.
        """
        update = tf.cast(self.iterations.value + 1, tf.float32)
        betas = (self.beta_1, self.beta_2)
        return (*(tf.where(applied, beta, 1.0) for beta in betas), *(tf.pow(tf.constant(b), update) for b in betas))

    def slots(self) -> tuple[list[tf.Variable], list[tf.Variable]]:
        """Returns the moving means of the gradients and of their squares, one of each per weight."""
        return [slot.value for slot in self._momentums], [slot.value for slot in self._velocities]

    def apply_to(self, weight: tf.Variable, slots: tuple[tf.Variable, ...], gradient, rate, scalars) -> None:
        """Changes one weight, or a replica's part of it, and its slots."""
        beta_1, beta_2, beta1_power, beta2_power = scalars
        momentum, velocity = slots
        tf.raw_ops.ResourceApplyAdam(
            var=weight.handle,
            m=momentum.handle,
            v=velocity.handle,
            beta1_power=beta1_power,
            beta2_power=beta2_power,
            lr=rate,
            beta1=beta_1,
            beta2=beta_2,
            epsilon=self.epsilon,
            grad=gradient,
        )


class WeightUpdate:
    """Updates weights by a reduced gradient, which is the same on all replicas.

    Adam is one function that each replica calls with its own variables. Other rules, those of Keras, are applied across
    replicas, weight by weight.

    Args:
        optimizer: built, like the weights, in the scope of the strategy.
        strategy: of one worker or several.
        weights: the trained ones.
        averages: their moving averages, none or one for each.
        rules: give the decay of weights and of moving averages.
    """

    def __init__(
        self,
        optimizer: keras.optimizers.Optimizer,
        strategy: tf.distribute.Strategy,
        weights: Sequence[tf.Variable],
        averages: Sequence[tf.Variable],
        rules: UpdateRules,
    ):
        self._optimizer, self._strategy, self._weights, self._averages = optimizer, strategy, weights, averages
        self._rules = rules
        self._sizes = [weight.shape.num_elements() for weight in weights]
        self._functions: dict[tuple[str, bool], ReplicaFunction] = {}
        self._reached: dict[str, list[int]] = {}

    def trace(self, problem: str, reached: list[int], joined: bool) -> None:
        """Prepares the updates of a problem whose loss depends on the weights with the indices `reached`.

        They are by a gradient that is `joined`, or by one in parts.
        """
        self._reached[problem] = reached
        if not isinstance(self._optimizer, FusedAdam) or (problem, joined) in self._functions:
            return

        def update(*arguments):
            self._update_replica(reached, *arguments)
            return ()

        number = tf.TensorSpec([], tf.float32)
        gradient: Any = [tf.TensorSpec(self._weights[index].shape, tf.float32) for index in reached]
        if joined:
            gradient = tf.TensorSpec([sum(self._sizes)], tf.float32)
        arguments = (self._variables_of(0, reached), gradient, number, number, (number,) * 4)
        self._functions[problem, joined] = ReplicaFunction(update, arguments)

    def on_replica(self, problem: str, replica: int, gradient: Gradient, applied, rate) -> list[tf.Tensor]:
        """On one replica, by its index in this process: updates its variables, or returns gradients for `across`.

        If `applied`, () bool, is False, the gradient must be 0, and nothing changes.
        """
        reached = self._reached[problem]
        if not isinstance(self._optimizer, FusedAdam):
            return self._cut(gradient, reached)
        scalars = (*self._rates(applied, rate), self._optimizer.scalars(applied))
        function = self._functions[problem, not isinstance(gradient, list)]
        function(self._variables_of(replica, reached), gradient, *scalars)
        return []

    def across(self, problem: str, gradients: list[Any], applied, rate) -> None:
        """Across replicas: counts the update, and applies it if `on_replica` did not."""
        if gradients:
            # Keras's rules change their slots even if the gradient is 0.
            tf.cond(applied, lambda: self._update_across(problem, gradients, applied, rate), lambda: None)
        self._optimizer.iterations.assign_add(tf.cast(applied, self._optimizer.iterations.dtype))

    def _variables_of(self, replica: int, reached: list[int]) -> list[list[tf.Variable]]:
        """Returns a replica's part of the weights `reached`, their slots and averages."""
        kinds = [self._weights, *self._optimizer.slots(), *([self._averages] if self._averages else [])]
        local = self._strategy.experimental_local_results
        return [[local(kind[index])[replica] for index in reached] for kind in kinds]

    def _cut(self, gradient: Gradient, reached: list[int]) -> list[tf.Tensor]:
        """Returns the parts of a gradient."""
        if isinstance(gradient, list):
            return gradient
        pieces = tf.split(gradient, self._sizes)
        return [tf.reshape(pieces[index], self._weights[index].shape) for index in reached]

    def _rates(self, applied, rate) -> tuple[tf.Tensor, tf.Tensor]:
        """Returns the learning rate and the new weights' share in the averages, both 0 if nothing is applied."""
        return tf.where(applied, rate, 0.0), tf.where(applied, 1.0 - self._rules.ema_decay, 0.0)

    def _update_replica(self, reached: list[int], variables, gradient, rate, share, scalars) -> None:
        weights, momentums, velocities, *averages = variables
        for number, part in enumerate(self._cut(gradient, reached)):
            weight = weights[number]
            self._rules.decay(weight, rate)
            self._optimizer.apply_to(weight, (momentums[number], velocities[number]), part, rate, scalars)
            for mean in averages:
                self._rules.average(mean[number], weight, share)

    def _update_across(self, problem: str, gradients: list[Any], applied, rate) -> None:
        rate, share = self._rates(applied, rate)
        update = self._strategy.extended.update

        def update_weight(weight, gradient):
            self._rules.decay(weight, rate)
            self._optimizer.update_step(gradient, weight, rate)

        for index, gradient in zip(self._reached[problem], gradients, strict=True):
            update(self._weights[index], update_weight, args=(gradient,), group=False)
            if self._averages:
                args = (self._weights[index], share)
                update(self._averages[index], self._rules.average, args=args, group=False)
