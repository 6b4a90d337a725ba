"""Optimizers by name: Keras's update rules, with clipping, averaging over tokens and weight decay left to the step."""

from collections.abc import Callable
from typing import Any

import keras
import numpy as np
from keras import ops

from t2t.backends import backend
from t2t.hparams.groups import OptimizerHParams
from t2t.registry import OPTIMIZERS, register_optimizer
from t2t.registry.overrides import PluginError, described, is_of_plugin, plugin_errors

_OF_THE_STEP = ("weight_decay", "clipnorm", "clipvalue", "global_clipnorm", "use_ema", "gradient_accumulation_steps")
"""Options of Keras's optimizers without effect: updates are clipped, decayed and averaged by the step, see hparams."""


def build_optimizer(hparams: OptimizerHParams) -> keras.optimizers.Optimizer:
    """Returns the optimizer. Its own learning rate is not used: each update passes one.

    Raises:
        PluginError: that of a plug-in fails, is no optimizer, or sets what the step does.
    """
    function = OPTIMIZERS.get(hparams.optimizer)
    # By default, Keras numbers optimizers in their names, with which the names of slots in checkpoints begin.
    with plugin_errors(function, "failed"):
        optimizer = function(hparams, learning_rate=0.0, name=hparams.optimizer)
    if not isinstance(optimizer, keras.optimizers.Optimizer) or optimizer.name != hparams.optimizer:
        found = getattr(optimizer, "name", type(optimizer).__name__)
        raise PluginError(
            f"{described(function)} returned {found}",
            f"it must return an optimizer of Keras with the name {hparams.optimizer!r}: pass on the keyword arguments "
            "that it is called with",
        )
    if given := [name for name in _OF_THE_STEP if getattr(optimizer, name, None)]:
        raise PluginError(
            f"{described(function)} sets {', '.join(given)}, which has no effect",
            "leave it out, and use the hparams weight_decay, clip_grad_norm, ema_decay and effective_batch_size",
        )
    if is_of_plugin(function):
        _check_step(function, lambda: function(hparams, learning_rate=0.0, name=hparams.optimizer))
    return optimizer


def _check_step(function: Any, make: Callable[[], keras.optimizers.Optimizer]) -> None:
    """Raises PluginError unless an optimizer of a plug-in changes a weight, and remembers with variables of its own."""
    weights = [keras.Variable(np.ones(shape, np.float32), name=f"try_{len(shape)}") for shape in ((2, 3), (3,))]
    optimizer: Any = make()
    with plugin_errors(function, "failed in a first update"):
        try:
            optimizer.build(weights)
            for weight in weights:
                optimizer.update_step(ops.ones(weight.shape), weight, ops.convert_to_tensor(0.1))
        except NotImplementedError as error:
            raise PluginError(
                f"{described(function)}: its optimizer has no rule",
                "write def update_step(self, gradient, variable, learning_rate)",
            ) from error
    if not optimizer.built:
        raise PluginError(f"{described(function)}: it is not built", "begin its build with super().build(variables)")
    if all((np.asarray(weight) == 1.0).all() for weight in weights):
        raise PluginError(
            f"{described(function)}: its update_step changes no weight",
            "end it with self.assign_sub(variable, learning_rate * step)",
        )


@register_optimizer
def adam(hparams: OptimizerHParams, **common: Any) -> keras.optimizers.Optimizer:
    """Adam (Kingma and Ba 2015)."""
    return backend().adam(**common, **_betas(hparams))


@register_optimizer
def adamw(hparams: OptimizerHParams, **common: Any) -> keras.optimizers.Optimizer:
    """Adam with decoupled weight decay, which the step applies (Loshchilov and Hutter 2019)."""
    return adam(hparams, **common)


@register_optimizer
def adamax(hparams: OptimizerHParams, **common: Any) -> keras.optimizers.Optimizer:
    """AdaMax (Kingma and Ba 2015, algorithm 2), with clipping by past gradients."""
    return ClippedAdamax(hparams.optimizer_adamax_clip, **common, **_betas(hparams))


@register_optimizer
def adafactor(hparams: OptimizerHParams, **common: Any) -> keras.optimizers.Optimizer:
    """Adafactor (Shazeer and Stern 2018)."""
    return keras.optimizers.Adafactor(**common, relative_step=False)


@register_optimizer
def lamb(hparams: OptimizerHParams, **common: Any) -> keras.optimizers.Optimizer:
    """LAMB, for large batches (You et al. 2020)."""
    return keras.optimizers.Lamb(**common, **_betas(hparams))


@register_optimizer
def muon(hparams: OptimizerHParams, **common: Any) -> keras.optimizers.Optimizer:
    """Muon: orthogonal steps of matrices (Jordan et al. 2024, Liu et al. 2025); AdamW for embeddings and vectors."""
    of_adam = {f"adam_{name}" if name.startswith("beta") else name: one for name, one in _betas(hparams).items()}
    return keras.optimizers.Muon(**common, **of_adam, weight_decay=None, adam_weight_decay=None)


@register_optimizer
def momentum(hparams: OptimizerHParams, **common: Any) -> keras.optimizers.Optimizer:
    """Stochastic gradient descent with momentum."""
    rule = {"momentum": hparams.optimizer_momentum_momentum, "nesterov": hparams.optimizer_momentum_nesterov}
    return Momentum(hparams.weight_decay, **common, **rule)


@register_optimizer
def sgd(hparams: OptimizerHParams, **common: Any) -> keras.optimizers.Optimizer:
    """Stochastic gradient descent."""
    return keras.optimizers.SGD(**common)


def _betas(hparams: OptimizerHParams) -> dict[str, float]:
    return {
        "beta_1": hparams.optimizer_adam_beta1,
        "beta_2": hparams.optimizer_adam_beta2,
        "epsilon": hparams.optimizer_adam_epsilon,
    }


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
