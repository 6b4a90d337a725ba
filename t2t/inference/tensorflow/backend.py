"""Functions of models on TensorFlow."""

import contextlib
import os
from collections.abc import Callable, Sequence
from typing import Any

import tensorflow as tf

from t2t.inference.backend import Backend
from t2t.inference.shortlist import Shortlist
from t2t.inference.tensorflow.batch_search import TensorFlowBatchSearch
from t2t.inference.tensorflow.devices import TensorFlowFunction, devices_of, use_device
from t2t.models.base import SequenceModel
from t2t.search.settings import SearchSettings

_KEPT_KERNELS = {"ONEDNN_PRIMITIVE_CACHE_CAPACITY": "4096", "TF_MKL_OPTIMIZE_PRIMITIVE_MEMUSE": "false"}
"""oneDNN's cache has room for 1,024 kernels, which a search of a thousand sentences overflows. TensorFlow has another
cache in front of it, which it does not use for matrix products by default."""


class TensorFlowBackend(Backend):
    """TensorFlow: graphs of unknown sizes."""

    name = "TensorFlow"

    def model_function(self, model: SequenceModel, function: Callable, signature: Sequence[Any]) -> TensorFlowFunction:
        """See the base class."""
        return TensorFlowFunction(model, function, signature)

    def batch_search(
        self, model: SequenceModel, settings: SearchSettings, extra_length: int, shortlist: Shortlist | None = None
    ) -> TensorFlowBatchSearch:
        """See the base class."""
        return TensorFlowBatchSearch(model, settings, extra_length, shortlist)

    def devices_of(self, model: SequenceModel) -> list[str]:
        """See the base class."""
        return devices_of(model)

    def use_device(self, number: int, name: str) -> contextlib.AbstractContextManager[None]:
        """See the base class."""
        return use_device(number, name)

    def on_accelerators(self) -> bool:
        """See the base class."""
        return bool(tf.config.list_physical_devices("GPU"))

    def use_single_core_ops(self) -> None:
        """See the base class; does nothing if TensorFlow has started, and keeps settings of the environment.

        It also enlarges the caches of oneDNN's kernels, which are compiled for each shape: shapes change with every
        step of a search, and recur with every batch.
        """
        for name, value in _KEPT_KERNELS.items():
            os.environ.setdefault(name, value)
        if "TF_NUM_INTRAOP_THREADS" not in os.environ:
            with contextlib.suppress(RuntimeError):
                tf.config.threading.set_intra_op_parallelism_threads(1)
