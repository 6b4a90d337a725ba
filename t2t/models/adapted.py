"""A model with adapters, which shares all of its weights with the model that they change.

Legend: D input width, O output width, R rank.
"""

import contextlib
import functools
import inspect
import threading
from collections.abc import Callable, Iterator
from typing import Any

import keras

from t2t.layers.adapters import Adapters
from t2t.models.base import SequenceModel


class AdaptedModel:
    """What `SequenceModel` is to searches and scoring: a model that reads W + s A B in place of weights with adapters.

    Any number of them share one model, which stays as it is: each adds A, (D, R), and B, (R, O), alone. The sums are
    computed in each call of a function, once for all steps of a search.

    Args:
        model: with its weights.
        adapters: of some of its weights.
    """

    def __init__(self, model: SequenceModel, adapters: Adapters):
        self._model, self._adapters = model, adapters
        self._thread = threading.local()

    @property
    def variables(self) -> list[keras.Variable]:
        """Those of the model, and those of the adapters."""
        return [*self._model.variables, *self._adapters.variables]

    @property
    def adapter_scale(self) -> float:
        """The s of W + s A B, which no variable holds."""
        return self._adapters.scale

    def __getattr__(self, name: str) -> Any:
        """Returns what the model has under a name; a method reads the sums."""
        value = getattr(self._model, name)
        return self.with_adapters(value) if inspect.ismethod(value) else value

    def __call__(self, features: dict[str, Any]) -> Any:
        """Returns the logits; see `SequenceModel.call`."""
        return self.with_adapters(self._model)(features)

    def with_adapters(self, function: Callable) -> Callable:
        """Returns a function in which layers of the model read the sums in place of their weights."""

        @functools.wraps(function)
        def call(*args, **kwargs):
            with self._scope():
                return function(*args, **kwargs)

        return call

    @contextlib.contextmanager
    def _scope(self) -> Iterator[None]:
        """Opens a scope of the sums; within it, nothing happens: a step of a loop reads those from before the loop."""
        if getattr(self._thread, "is_open", False):
            yield
            return
        values = {variable.path: variable.value for variable in self.variables}
        # All weights, since a scope around this one may have values for them: those of another device.
        mapping = {id(variable): (variable, values[variable.path]) for variable in self._model.variables}
        mapping |= {id(weight): (weight, value) for weight, value in self._adapters.adapted(values)}
        self._thread.is_open = True
        try:
            with keras.StatelessScope(state_mapping=list(mapping.values()), initialize_variables=False):
                yield
        finally:
            self._thread.is_open = False
