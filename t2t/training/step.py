"""One update of the weights.

    update = sum of token losses over all replicas and micro-batches / their global token count;
    then the gradients are reduced, clipped by global norm, and applied.

`keras.Model.fit` clips before it reduces and averages per-replica means; both are wrong for token batches, so the step
is written out here. An update whose gradient is not finite changes nothing but the loss scale; see `skipped`.

In a model of several problems, each update trains one of them. Weights that its loss does not depend on, such as the
modalities of the others, stay unchanged, and so do their slots and moving averages: nothing decays because of another
problem. Rules that depend on the number of updates, e.g. Adam's bias correction, count the updates of all problems.

Statistics, such as the moving means of batch norms, change once per update, by the mean of the changes that each
replica and micro-batch computes, weighted by their tokens.

Each engine has its own implementation: `t2t.training.tensorflow.step`, `t2t.training.jax.step`.
"""

import abc
from collections.abc import Sequence
from typing import Any, NamedTuple

import keras
import numpy as np

from t2t.layers.adapters import Adapters
from t2t.models.base import SequenceModel
from t2t.training.loss_scale import LossScale
from t2t.training.objectives import TrainingObjective

Features = dict[str, np.ndarray]

NOISE_FALL = 0.55
"""The variance of gradient noise falls with update^0.55 (Neelakantan et al. 2015, arXiv:1511.06807, section 3).

About the root, as in Kaiser and Sutskever (2016, "gradient noise"), whose program has this exponent.
"""


def updates_done(update: int) -> int:
    """Returns how many updates of the run come before an update; none before a warm-up, update 0."""
    return max(update - 1, 0)


class UpdateStats(NamedTuple):
    """Results of an update, as tensors on the device; reading one waits for the update to finish."""

    loss_sum: Any
    """() float32: training loss summed over all tokens, nats."""
    tokens: Any
    """() float32: number of target tokens (or examples) that the loss is over."""
    grad_norm: Any
    """() float32: norm of the gradient before clipping."""
    finite: Any
    """() bool: whether the update was applied."""
    padded: Any
    """() float32: number of target tokens (or examples) with padding."""
    stops: Any
    """() float32: above 0 if a worker asks all to stop."""
    loss_scale: Any
    """() float32: the factor of its loss, see `LossScale`."""


class UpdateStep(abc.ABC):
    """Computes and applies updates on all devices.

    Args:
        model: built in the scope of the devices, for one problem or several.
        optimizer: made under the same scope.
        run_seed: seed of the dropout masks.
        clip_grad_norm: largest global norm; 0 = none.
        weight_decay: decoupled decay of weights of two or more dimensions.
        gradient_noise: standard deviation of the noise on the first gradient, see `NOISE_FALL`; 0 = none.
        ema_decay: decay of the moving average of the weights; 0 = none.
        xla: whether XLA compiles the gradient of a batch.
        objective: what is minimized; None for the likelihood of targets.
        adapters: trained in place of the weights of the model, made under the same scope; None to train the weights.
    """

    ema: Sequence[Any]
    """Variables with the moving averages of the trained weights; empty if none are kept."""
    loss_scale: LossScale
    replicas: int
    """Number of replicas, of all workers."""
    own: range
    """Indices of the replicas in this process."""

    def __init__(
        self,
        model: SequenceModel,
        optimizer: keras.optimizers.Optimizer,
        *,
        run_seed: int = 0,
        clip_grad_norm: float = 0.0,
        weight_decay: float = 0.0,
        gradient_noise: float = 0.0,
        ema_decay: float = 0.0,
        xla: bool = False,
        objective: TrainingObjective | None = None,
        adapters: Adapters | None = None,
    ):
        self.model, self.optimizer, self.adapters, self.xla = model, optimizer, adapters, xla
        self.objective = objective or TrainingObjective()
        self._run_seed, self._clip, self._noise = run_seed, clip_grad_norm, gradient_noise
        self._weight_decay, self._ema_decay = weight_decay, ema_decay
        self.updates_before = 0
        """Updates in the optimizer's state at the start of the run, if that was taken from another run."""

    @property
    def trained(self) -> list[keras.Variable]:
        """Variables that have a gradient."""
        return self.model.trainable_variables if self.adapters is None else self.adapters.variables

    @property
    def state_variables(self) -> list[keras.Variable]:
        """All variables that updates change, but for `ema`: of the model, adapters, optimizer and loss scale."""
        adapters = self.adapters.variables if self.adapters else []
        return [*self.model.variables, *adapters, *self.optimizer.variables, *self.loss_scale.variables]

    @property
    def saved(self) -> list[keras.Variable]:
        """Variables that a checkpoint holds: those of the model, or only those of its adapters."""
        return self.model.variables if self.adapters is None else self.adapters.variables

    def __call__(
        self,
        micro_batches: Sequence[Sequence[Features]],
        update: int,
        rate: float,
        problem: str = "",
        stops: bool = False,
    ) -> UpdateStats:
        """Computes and applies update number `update` (the first is 1), from which the dropout masks derive.

        Each micro-batch has one dict of features for each replica of this process. `problem` names their problem if the
        model has several. `stops` asks all workers to stop.
        """
        return self._run(micro_batches, update, rate, problem, applies=True, stops=stops)

    def skipped(self, update: int) -> int:
        """Returns how many of the first `update` updates were not applied, including those before the run resumed."""
        return update - int(np.asarray(self.optimizer.iterations)) + self.updates_before

    @abc.abstractmethod
    def compile(self, updates: Sequence[Sequence[Sequence[Features]]], problem: str = "") -> None:
        """Compiles the programs of updates in parallel if the engine can; errors are raised later, by `warm_up`."""

    def warm_up(self, micro_batches: Sequence[Sequence[Features]], problem: str = "") -> None:
        """Computes an update without applying it: allocates its memory, and changes no state."""
        float(self._run(micro_batches, 0, 0.0, problem, applies=False).loss_sum)

    @abc.abstractmethod
    def _run(
        self,
        micro_batches: Sequence[Sequence[Features]],
        update: int,
        rate: float,
        problem: str,
        applies: bool,
        stops: bool = False,
    ) -> UpdateStats: ...
