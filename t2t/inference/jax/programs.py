"""Functions of models that JAX compiles once for each shape of their arguments.

Legend: B rows of a batch, as they are given and as they are padded.
"""

import logging
import threading
from collections.abc import Callable, Sequence
from typing import Any

import jax
import keras
import numpy as np

from t2t.data.reading.batching import pad_to
from t2t.inference.backend import ModelFunction
from t2t.inference.jax.devices import Copies
from t2t.inference.jax.sizes import padded_length, padded_rows
from t2t.layers.mode import in_mode
from t2t.models.adapted import AdaptedModel
from t2t.models.base import SequenceModel

log = logging.getLogger("t2t")


class Program:
    """A compiled function of tensors that reads the current weights of a model at each call.

    Args:
        model: whose weights it reads.
        function: of tensors.
        name: what it does, for the log.
        constants: indices, from 0, of arguments that are not tensors; each of their values needs its own program.
    """

    def __init__(self, model: SequenceModel, function: Callable, name: str, constants: Sequence[int] = ()):
        if isinstance(model, AdaptedModel):
            function = model.with_adapters(function)
        self._variables, self._name, self._constants = model.variables, name, frozenset(constants)
        self._copies = Copies(self._variables)
        self._compiled_for: set[Any] = set()
        self._lock = threading.Lock()

        def of_weights(weights, *given):
            mapping = list(zip(self._variables, weights, strict=True))
            with in_mode(gradients=False), keras.StatelessScope(state_mapping=mapping, initialize_variables=False):
                return function(*given)

        self._compiled = jax.jit(of_weights, static_argnums=[1 + number for number in constants])

    def __call__(self, *given: Any) -> Any:
        """Returns the results, arrays of JAX."""
        self._log_new(given)
        return self._compiled(self._copies.values(), *given)

    def _log_new(self, given: Sequence[Any]) -> None:
        shapes = [
            str(x) if number in self._constants else [np.shape(leaf) for leaf in jax.tree.leaves(x)]
            for number, x in enumerate(given)
        ]
        with self._lock:
            if (key := str(shapes)) in self._compiled_for:
                return
            self._compiled_for.add(key)
        log.debug("XLA compiles a program: %s, shapes %s", self._name, key)


class JaxFunction(ModelFunction):
    """A function of batches that are padded to one of a few sizes; see `Backend.model_function`."""

    def __init__(self, model: SequenceModel, function: Callable, signature: Sequence[Any]):
        constants = [number for number, spec in enumerate(signature) if getattr(spec, "shape", None) == ()]
        self._program = Program(model, function, getattr(function, "__name__", "a batch"), constants)
        self._signature, self._constants = list(signature), constants

    def __call__(self, *tensors: Any) -> Any:
        """Takes and returns arrays; results have as many rows as the arguments."""
        rows = next(np.shape(x)[0] for x in jax.tree.leaves(tensors) if np.ndim(x))
        given = jax.tree.map(_padded, list(tensors), self._signature)
        size = padded_rows(rows)
        return jax.tree.map(
            lambda x: np.asarray(x)[:rows] if np.ndim(x) and len(x) == size else np.asarray(x), self._program(*given)
        )


def _padded(value: Any, spec: keras.KerasTensor) -> Any:
    if not spec.shape:
        return value
    array = np.asarray(value)
    sizes = [
        own if known is not None else (padded_length(own) if axis else padded_rows(own))
        for axis, (own, known) in enumerate(zip(array.shape, spec.shape, strict=True))
    ]
    return pad_to(array, sizes)
