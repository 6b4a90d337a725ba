"""Optimizers by name: Keras's update rules, with clipping, averaging over tokens and weight decay left to the step."""

import keras

from t2t.hparams.sections import OptimizerHParams


def build_optimizer(hparams: OptimizerHParams) -> keras.optimizers.Optimizer:
    """Returns the optimizer; its learning rate is assigned before every update."""
    adam = {
        "beta_1": hparams.optimizer_adam_beta1,
        "beta_2": hparams.optimizer_adam_beta2,
        "epsilon": hparams.optimizer_adam_epsilon,
    }
    # Keras counts the optimizers of a process in their names, which are the slots' names in checkpoints.
    common = {"learning_rate": 0.0, "name": hparams.optimizer}
    if hparams.optimizer in ("adam", "adamw"):  # AdamW is Adam with decoupled decay, which the step applies
        return keras.optimizers.Adam(**common, **adam)
    if hparams.optimizer == "lamb":
        return keras.optimizers.Lamb(**common, **adam)
    if hparams.optimizer == "adafactor":
        return keras.optimizers.Adafactor(**common, relative_step=False)
    return keras.optimizers.SGD(**common)
