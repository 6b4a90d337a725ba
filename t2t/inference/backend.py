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
            function: of tensors. Rows of zeros, and longer rows filled with zeros, change nothing of what it returns
                but that this has rows, and columns, for them.
            signature: of the tensors. The first axis of what has axes is that of the rows; it and other axes of unknown
                size may be padded, and of the results only the first axis is cut. A number may be taken as a constant.
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
