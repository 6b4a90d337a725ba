"""What runs the functions of models: what TensorFlow and JAX promise alike."""

import contextlib
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import Any

from t2t.decoding.settings import SearchSettings
from t2t.inference.batch_search import BatchSearch
from t2t.inference.shortlist.shortlist import Shortlist
from t2t.models.base import SequenceModel


class ModelFunction(ABC):
    """A compiled function of tensors that reads a model's weights; their current values count at each call."""

    @abstractmethod
    def __call__(self, *tensors: Any) -> Any:
        """Returns tensors, of arrays as the signature says, on the device of the thread, see `use_device`."""


class Backend(ABC):
    """What one of Keras's backends compiles and runs; signatures are structures of `keras.KerasTensor`."""

    name: str

    @abstractmethod
    def model_function(self, model: SequenceModel, function: Callable, signature: Sequence[Any]) -> ModelFunction:
        """Returns the compiled function of a function of tensors.

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
        """Returns what searches batches with a model, see `BatchSearch`."""

    @abstractmethod
    def devices_of(self, model: SequenceModel) -> list[str]:
        """Returns the names of the devices that have the weights of a model; "" where there is one."""

    @abstractmethod
    def use_device(self, number: int, name: str) -> contextlib.AbstractContextManager[None]:
        """Returns a context that runs what is called on a device; this holds for the thread."""

    @abstractmethod
    def on_accelerators(self) -> bool:
        """Returns whether it computes on something else than the processor."""

    @abstractmethod
    def use_single_core_ops(self) -> None:
        """Makes operations run on one core each, as far as the process still can; see `t2t.inference.parallel`."""
