"""A model with adapters, which shares the weights of its base model.

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
from t2t.layers.tensors import Features, Tensor
from t2t.models.base import SequenceModel


class AdaptedModel:
    """A base model that reads W + s A B in place of the weights with adapters; it has the interface of `SequenceModel`.

    Several can share one base model, which is not changed: each adds only its A, (D, R), and B, (R, O). The sums are
    computed once in each call of a method, so once for all steps of a search.

    Args:
        model: the base model.
        adapters: of some of its weights.
    """

    def __init__(self, model: SequenceModel, adapters: Adapters):
        self._model, self._adapters = model, adapters
        self._thread = threading.local()

    @property
    def variables(self) -> list[keras.Variable]:
        """The variables of the base model, then those of the adapters."""
        return [*self._model.variables, *self._adapters.variables]

    @property
    def adapter_scale(self) -> float:
        """The s of W + s A B, which no variable holds."""
        return self._adapters.scale

    def __getattr__(self, name: str) -> Any:
        """Returns an attribute of the base model; methods read the sums."""
        value = getattr(self._model, name)
        return self.with_adapters(value) if inspect.ismethod(value) else value

    def __call__(self, features: Features) -> Tensor:
        """Returns the logits; see `SequenceModel.call`."""
        return self.with_adapters(self._model)(features)

    def with_adapters(self, function: Callable) -> Callable:
        """Wraps a function so that layers of the base model read the sums in place of their weights."""

        @functools.wraps(function)
        def call(*args, **kwargs):
            with self._scope():
                return function(*args, **kwargs)

        return call

    @contextlib.contextmanager
    def _scope(self) -> Iterator[None]:
        """Opens a scope with the sums. Nested calls do nothing: steps of a loop read the sums from before it."""
        if getattr(self._thread, "is_open", False):
            yield
            return
        values = {variable.path: variable.value for variable in self.variables}
        # All weights, since an outer scope may have values for them: those of another device.
        mapping = {id(variable): (variable, values[variable.path]) for variable in self._model.variables}
        mapping |= {id(weight): (weight, value) for weight, value in self._adapters.adapted(values)}
        self._thread.is_open = True
        try:
            with keras.StatelessScope(state_mapping=list(mapping.values()), initialize_variables=False):
                yield
        finally:
            self._thread.is_open = False
