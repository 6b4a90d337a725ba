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
from t2t.training.objectives import BatchLoss, Likelihood


@dataclasses.dataclass(frozen=True)
class Forward:
    """What a forward pass gives."""

    loss: BatchLoss
    read: list[int]
    """Numbers of the variables that it has read."""
    statistics: dict[int, tuple[Any, Any]]
    """Of the variables that it has assigned, by their numbers: the values before and after."""


class BatchLossFunction:
    """The loss of a batch of a model of one problem or several.

    Args:
        model: whose variables they are.
        objective: what is minimized.
        adapters: what is trained in place of the weights of the model; None for these.
    """

    def __init__(self, model: SequenceModel, objective: Likelihood, adapters: Adapters | None = None):
        self._model, self._objective, self._adapters = model, objective, adapters
        trained = model.trainable_variables if adapters is None else adapters.variables
        self.trained = len(trained)
        """Number of the variables that are trained, the first of them."""
        self.variables = [*trained, *model.non_trainable_variables]
        self._numbers = {id(variable): number for number, variable in enumerate(self.variables)}

    def __call__(self, problem: str, values: Sequence[Any], features: dict[str, Any], seed: Any) -> Forward:
        """Returns the loss of a batch of a problem, "" of a model of one, with these values of the variables."""
        model = self._model.for_problem(problem) if problem else self._model
        # At its end Keras would give values to every variable of the process that waits for one.
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
        """Returns the numbers of the variables of these ids; with a weight that has an adapter its factors are read."""
        found = {self._numbers[one] for one in ids if one in self._numbers}
        if self._adapters is not None:
            for pair, weight in enumerate(self._adapters.weights):
                found |= {2 * pair, 2 * pair + 1} if id(weight) in ids else set()
        return sorted(found)

    def _mapping(self, values: Sequence[Any]) -> list[tuple[keras.Variable, Any]]:
        """Returns the value of each variable, of those that have an adapter with it."""
        mapping = list(zip(self.variables, values, strict=True))
        if self._adapters is None:
            return mapping
        return mapping + self._adapters.adapted({variable.path: value for variable, value in mapping})


class _Scope(keras.StatelessScope):
    """A scope that knows which variables were read in it."""

    def __init__(self, **kwargs):
        super().__init__(**kwargs)
        self.read: set[int] = set()
        """Their ids."""

    def get_current_value(self, ref):
        """Returns the value of a variable."""
        self.read.add(id(ref))
        return super().get_current_value(ref)
