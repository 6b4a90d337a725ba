"""Optimizers by name: Keras's update rules, with clipping, averaging over tokens and weight decay left to the step."""

from typing import Any

import keras
import tensorflow as tf

from t2t.hparams.groups import OptimizerHParams


def build_optimizer(hparams: OptimizerHParams) -> keras.optimizers.Optimizer:
    """Returns the optimizer; its own learning rate is not used, each update is given one."""
    adam = {
        "beta_1": hparams.optimizer_adam_beta1,
        "beta_2": hparams.optimizer_adam_beta2,
        "epsilon": hparams.optimizer_adam_epsilon,
    }
    # Keras counts the optimizers of a process in their names, which are the slots' names in checkpoints.
    common = {"learning_rate": 0.0, "name": hparams.optimizer}
    if hparams.optimizer in ("adam", "adamw"):  # AdamW is Adam with decoupled decay, which the step applies
        return FusedAdam(**common, **adam)
    if hparams.optimizer == "adamax":
        return ClippedAdamax(hparams.optimizer_adamax_clip, **common, **adam)
    if hparams.optimizer == "lamb":
        return keras.optimizers.Lamb(**common, **adam)
    if hparams.optimizer == "adafactor":
        return keras.optimizers.Adafactor(**common, relative_step=False)
    if hparams.optimizer == "momentum":
        momentum = {"momentum": hparams.optimizer_momentum_momentum, "nesterov": hparams.optimizer_momentum_nesterov}
        return Momentum(hparams.weight_decay, **common, **momentum)
    return keras.optimizers.SGD(**common)


class FusedAdam(keras.optimizers.Adam):
    """Adam (Kingma and Ba 2015, algorithm 1, in the order of operations given at the end of its section 2).

    Keras's own takes a dozen operations, each of which reads and writes a whole variable; this is TensorFlow's single
    one, which does the same in one pass. Slots, their names and checkpoints are Keras's.
    """

    def scalars(self, applied=True) -> tuple[Any, ...]:
        """Returns what is the same for all weights: the betas, and their powers by the number of the update.

        Args:
            applied: () bool. Where it is False, gradients and rates of 0 change neither weights nor slots; a branch
                would make the device wait for the host.
        """
        update = tf.cast(self.iterations.value + 1, tf.float32)
        betas = (self.beta_1, self.beta_2)
        return (*(tf.where(applied, beta, 1.0) for beta in betas), *(tf.pow(tf.constant(b), update) for b in betas))

    def slots(self) -> tuple[list[tf.Variable], list[tf.Variable]]:
        """Returns the means of the gradients and of their squares, one of each for a weight."""
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


class ClippedAdamax(keras.optimizers.Adamax):
    """AdaMax (Kingma and Ba 2015, algorithm 2), each weight's gradient cut by how large its past ones have been.

    |g| <= clip u + 1e-4, where u is the largest gradient of the past, exponentially decayed (Freivalds and Liepins
    2017): one example that does not fit cannot undo what has been learnt. `clip` 0 cuts nothing.
    """

    floor = 1e-4
    """Smaller gradients are never cut, so that there is a first step."""

    def __init__(self, clip: float = 0.0, **kwargs):
        super().__init__(**kwargs)
        self.clip = clip

    def update_step(self, gradient, variable, learning_rate):
        """Updates one variable; see Keras's."""
        if self.clip:
            past = self._u[self._get_variable_index(variable)].value
            bound = self.clip * past + self.floor
            gradient = tf.clip_by_value(tf.convert_to_tensor(gradient), -bound, bound)
        super().update_step(gradient, variable, learning_rate)


class Momentum(keras.optimizers.SGD):
    """Stochastic gradient descent with momentum, of the loss with an L2 penalty.

    `l2` times a weight of two or more dimensions is added to its gradient, that of l2 / 2 times its squared norm. The
    momentum carries it on, unlike the decay of AdamW.
    """

    def __init__(self, l2: float, **kwargs):
        super().__init__(**kwargs)
        self.l2 = l2

    def update_step(self, gradient, variable, learning_rate):
        """Updates one variable; see Keras's."""
        if self.l2 and len(variable.shape) >= 2:
            gradient = tf.convert_to_tensor(gradient) + self.l2 * variable
        super().update_step(gradient, variable, learning_rate)
