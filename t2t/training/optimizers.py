"""Optimizers by name: Keras's update rules, with clipping, averaging over tokens and weight decay left to the step."""

import keras
from keras import ops

from t2t.hparams.groups import OptimizerHParams
from t2t.training.engine_choice import training_engine


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
        return training_engine().adam(**common, **adam)
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
            gradient = ops.clip(ops.convert_to_tensor(gradient), -bound, bound)
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
            gradient = ops.convert_to_tensor(gradient) + self.l2 * ops.convert_to_tensor(variable)
        super().update_step(gradient, variable, learning_rate)
