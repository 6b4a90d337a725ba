"""One update of the weights: what is minimized and which variables change; `t2t.backends.update` says how."""

from collections.abc import Sequence
from typing import Any

import keras
import numpy as np

from t2t.backends import backend
from t2t.backends.base import Devices
from t2t.backends.update import Features, LossFunction, UpdateRules, UpdateStats
from t2t.layers.adapters import Adapters
from t2t.models.base import SequenceModel
from t2t.registry.overrides import PluginError, described
from t2t.training.objectives import TrainingObjective


class UpdateStep:
    """Computes and applies updates on all devices.

    Args:
        model: built in the scope of the devices, for one problem or several.
        optimizer: made under the same scope.
        devices: to train on.
        objective: what is minimized; None for the likelihood of targets.
        adapters: trained in place of the weights of the model, made under the same scope; None to train the weights.
        rules: fields of `UpdateRules`.
    """

    def __init__(
        self,
        model: SequenceModel,
        optimizer: keras.optimizers.Optimizer,
        devices: Devices,
        *,
        objective: TrainingObjective | None = None,
        adapters: Adapters | None = None,
        **rules: Any,
    ):
        self.model, self.optimizer, self.adapters = model, optimizer, adapters
        self.objective = objective or TrainingObjective()
        self.replicas, self.own = devices.replicas, devices.own
        how, loss = UpdateRules(**rules), LossFunction(model, self.objective.loss, adapters)
        self.xla, self.trained = how.xla, loss.trained
        self._update = backend().update(loss, optimizer, devices, how)
        self.compiles_meanwhile = self._update.compiles_meanwhile
        self.ema: Sequence[Any] = self._update.ema
        """Variables with the moving averages of the trained weights; empty if none are kept."""
        self.loss_scale = self._update.loss_scale
        """The factor of the loss."""
        self.updates_before = 0
        """Updates in the optimizer's state at the start of the run, if that was taken from another run."""

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
        prepared = self._prepared(micro_batches, update, problem)
        return self._update(prepared, update, rate, problem, applies=True, stops=stops)

    def skipped(self, update: int) -> int:
        """Returns how many of the first `update` updates were not applied, including those before the run resumed."""
        return update - int(np.asarray(self.optimizer.iterations)) + self.updates_before

    def compile(self, updates: Sequence[Sequence[Sequence[Features]]], problem: str = "") -> None:
        """See `Update.compile`."""
        self._update.compile((self._prepared(micro_batches, 0, problem) for micro_batches in updates), problem)

    def stop_compiling(self) -> None:
        """See `Update.stop_compiling`."""
        self._update.stop_compiling()

    @property
    def is_compiling(self) -> bool:
        """See `Update.is_compiling`."""
        return self._update.is_compiling

    def warm_up(self, micro_batches: Sequence[Sequence[Features]], problem: str = "") -> None:
        """Computes an update without applying it: allocates its memory, and changes no state."""
        prepared = self._prepared(micro_batches, 0, problem)
        float(self._update(prepared, 0, 0.0, problem, applies=False).loss_sum)

    def _prepared(self, micro_batches: Sequence[Sequence[Features]], update: int, problem: str) -> list[list[Features]]:
        prepared = [self.objective.prepare(batches, update, problem) for batches in micro_batches]
        if (given := [*map(len, micro_batches)]) != (found := [*map(len, prepared)]):
            raise PluginError(
                f"{described(type(self.objective))}: its prepare returned {found[0]} batches for {given[0]}",
                "return one for each",
            )
        return prepared
