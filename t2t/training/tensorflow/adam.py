"""Adam as a single operation of TensorFlow."""

from typing import Any

import keras
import tensorflow as tf


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
