"""The interface of the inference backends, TensorFlow and JAX: they compile and run the functions of models.

A function is compiled for its signature: shapes and dtypes of its arguments.
"""

import contextlib
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import Any

import keras
import numpy as np

from t2t.data.columns import SEQUENCES, batch_dtype
from t2t.inference.batch_search import BatchSearch
from t2t.inference.shortlist import Shortlist
from t2t.models.base import SequenceModel
from t2t.search.settings import SearchSettings


class ModelFunction(ABC):
    """A compiled function of tensors that reads the current weights of a model at each call."""

    @abstractmethod
    def __call__(self, *tensors: Any) -> Any:
        """Runs the function on the thread's device, see `use_device`.

        Takes arrays as the signature says; returns a structure of TensorFlow tensors or numpy arrays.
        """


class Backend(ABC):
    """Compiles and runs functions on one of Keras's backends; signatures are structures of `keras.KerasTensor`."""

    name: str

    @abstractmethod
    def model_function(self, model: SequenceModel, function: Callable, signature: Sequence[Any]) -> ModelFunction:
        """Compiles a function of tensors.

        Args:
            model: whose weights `function` reads.
            function: of tensors. Padding its arrays with zeros, in rows or columns, must not change the results for
                the rest; it only adds rows and columns to them.
            signature: of the tensors. Axis 0 of arrays is rows; it and other axes of unknown size may be padded with
                zeros, and only axis 0 of the results is cut back. A scalar may be compiled as a constant.
        """

    @abstractmethod
    def batch_search(
        self, model: SequenceModel, settings: SearchSettings, extra_length: int, shortlist: Shortlist | None = None
    ) -> BatchSearch:
        """Returns the search of batches with a model, see `BatchSearch`."""

    @abstractmethod
    def devices_of(self, model: SequenceModel) -> list[str]:
        """Returns the names of the devices with a copy of the model's weights; `[""]` if there is one copy."""

    @abstractmethod
    def use_device(self, number: int, name: str) -> contextlib.AbstractContextManager[None]:
        """Returns a context in which this thread runs functions on a device."""

    @abstractmethod
    def on_accelerators(self) -> bool:
        """Returns whether it computes on accelerators instead of the processor."""

    @abstractmethod
    def use_single_core_ops(self) -> None:
        """Makes each operation run on one core, if the process still allows that; see `t2t.inference.parallel`."""


def inputs_signature(model: SequenceModel) -> keras.KerasTensor:
    """Returns the signature of a batch of inputs, or of prefixes if the model has no inputs."""
    spec = model.spec.inputs or model.spec.targets
    lengths = [None] if spec.kind in SEQUENCES else []
    return keras.KerasTensor([None, *lengths, *spec.shape], batch_dtype(spec).name)


def batch_signature(model: SequenceModel, batch: dict[str, np.ndarray]) -> dict[str, keras.KerasTensor]:
    """Returns the signature of a batch's features; numbers of rows and lengths are unknown, sizes of items known."""
    specs = {name: spec for name, spec in model.spec.features.items() if name in batch}
    items = {name: specs[name].shape if name in specs else () for name in batch}
    return {
        name: keras.KerasTensor([None] * (array.ndim - len(items[name])) + list(items[name]), array.dtype.name)
        for name, array in batch.items()
    }
