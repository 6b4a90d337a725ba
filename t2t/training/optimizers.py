"""Optimizers by name: Keras's update rules, with clipping, averaging over tokens and weight decay left to the step."""

import keras
from keras import ops

from t2t.backends.choice import backend
from t2t.hparams.groups import OptimizerHParams


def build_optimizer(hparams: OptimizerHParams) -> keras.optimizers.Optimizer:
    """Returns the optimizer. Its own learning rate is not used: each update passes one."""
    adam = {
        "beta_1": hparams.optimizer_adam_beta1,
        "beta_2": hparams.optimizer_adam_beta2,
        "epsilon": hparams.optimizer_adam_epsilon,
    }
    # By default, Keras numbers optimizers in their names, with which the names of slots in checkpoints begin.
    common = {"learning_rate": 0.0, "name": hparams.optimizer}
    if hparams.optimizer in ("adam", "adamw"):  # AdamW is Adam with decoupled decay, which the step applies
        return backend().adam(**common, **adam)
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


class ClippedAdamax(keras.optimizers.Adamax):
    """AdaMax (Kingma and Ba 2015, algorithm 2), with each number of a gradient clipped by its largest past values.

    |g| <= clip u + 1e-4, where u is the largest past gradient, exponentially decayed (Freivalds and Liepins 2017): a
    single outlier cannot undo what has been learnt. `clip` 0 disables clipping.
    """

    floor = 1e-4
    """Smaller gradients are never clipped; otherwise the first update would be zero."""

    def __init__(self, clip: float = 0.0, **kwargs):
        super().__init__(**kwargs)
        self.clip = clip

    def update_step(self, gradient, variable, learning_rate):
        """Updates one variable; see Keras's."""
        if self.clip:
            past = self._u[self._get_variable_index(variable)].value
            bound = self.clip * past + self.floor
            gradient = ops.clip(ops.convert_to_tensor(gradient), -bound, bound)
        super().update_step(gradient, variable, learning_rate)


class Momentum(keras.optimizers.SGD):
    """Stochastic gradient descent with momentum on the loss plus an L2 penalty.

    The penalty is l2 / 2 times the squared norm of each weight of two or more dimensions; its gradient, `l2` times the
    weight, enters the momentum, unlike the decay of AdamW.
    """

    def __init__(self, l2: float, **kwargs):
        super().__init__(**kwargs)
        self.l2 = l2

    def update_step(self, gradient, variable, learning_rate):
        """Updates one variable; see Keras's."""
        if self.l2 and len(variable.shape) >= 2:
            gradient = ops.convert_to_tensor(gradient) + self.l2 * ops.convert_to_tensor(variable)
        super().update_step(gradient, variable, learning_rate)
