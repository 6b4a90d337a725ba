"""The loss of one batch as a function of the values of variables, which an engine differentiates.

Statistics are variables without a gradient that a forward pass in training assigns, such as the moving means of batch
norms.
"""

import dataclasses
from collections.abc import Sequence
from typing import Any

import keras

from t2t.layers.adapters import Adapters
from t2t.models.base import SequenceModel
from t2t.training.objectives import BatchLoss, TrainingObjective


@dataclasses.dataclass(frozen=True)
class Forward:
    """The result of a forward pass; variables are given by their index in `BatchLossFunction.variables`."""

    loss: BatchLoss
    read: list[int]
    """Variables that were read."""
    statistics: dict[int, tuple[Any, Any]]
    """Variables that were assigned -> values before and after."""


class BatchLossFunction:
    """Computes the loss of a batch from given values of the variables.

    Args:
        model: of one problem or several; owns the variables.
        objective: what is minimized.
        adapters: trained in place of the model's weights; None to train the weights.
    """

    def __init__(self, model: SequenceModel, objective: TrainingObjective, adapters: Adapters | None = None):
        self._model, self._objective, self._adapters = model, objective, adapters
        trained = model.trainable_variables if adapters is None else adapters.variables
        self.trained = len(trained)
        """How many of `variables` are trained; these come first."""
        self.variables = [*trained, *model.non_trainable_variables]
        self._numbers = {id(variable): number for number, variable in enumerate(self.variables)}

    def __call__(self, problem: str, values: Sequence[Any], features: dict[str, Any], seed: Any) -> Forward:
        """Returns the loss of a batch of a problem ("" if the model has one) for these values of the variables."""
        model = self._model.for_problem(problem) if problem else self._model
        # Otherwise Keras would initialize all pending variables of the process at the end of the scope.
        scope = _Scope(state_mapping=self._mapping(values), initialize_variables=False)
        before = [scope.get_current_value(variable) for variable in self.variables]
        scope.read.clear()
        with scope:
            loss = self._objective.loss(model, features, seed)
        read = self._read(scope.read)
        after = [scope.get_current_value(variable) for variable in self.variables]
        pairs = list(zip(before, after, strict=True))
        assigned = [n for n in range(self.trained, len(pairs)) if pairs[n][0] is not pairs[n][1]]
        return Forward(loss, read, {number: pairs[number] for number in assigned})

    def _read(self, ids: set[int]) -> list[int]:
        """Returns the indices of variables by id(); reading an adapted weight counts as reading its factors."""
        found = {self._numbers[one] for one in ids if one in self._numbers}
        if self._adapters is not None:
            for pair, weight in enumerate(self._adapters.weights):
                found |= {2 * pair, 2 * pair + 1} if id(weight) in ids else set()
        return sorted(found)

    def _mapping(self, values: Sequence[Any]) -> list[tuple[keras.Variable, Any]]:
        """Returns (variable, value) pairs; adapted weights follow a second time, with the adapter added."""
        mapping = list(zip(self.variables, values, strict=True))
        if self._adapters is None:
            return mapping
        return mapping + self._adapters.adapted({variable.path: value for variable, value in mapping})


class _Scope(keras.StatelessScope):
    """A scope that records which variables are read in it."""

    def __init__(self, **kwargs):
        super().__init__(**kwargs)
        self.read: set[int] = set()
        """Their ids."""

    def get_current_value(self, ref):
        """Returns the value of a variable."""
        self.read.add(id(ref))
        return super().get_current_value(ref)
