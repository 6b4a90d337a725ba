"""Functions of models on JAX."""

import contextlib
from collections.abc import Callable, Sequence
from typing import Any

import jax

from t2t.files.paths import programs_folder
from t2t.inference.backend import Backend
from t2t.inference.jax.batch_search import JaxBatchSearch
from t2t.inference.jax.devices import devices_of, use_device
from t2t.inference.jax.programs import JaxFunction
from t2t.inference.shortlist import Shortlist
from t2t.models.base import SequenceModel
from t2t.search.settings import SearchSettings


class JaxBackend(Backend):
    """JAX: programs of fixed sizes."""

    name = "JAX"

    def __init__(self):
        if jax.config.jax_compilation_cache_dir is None:  # otherwise the user has chosen where to cache, if at all
            jax.config.update("jax_compilation_cache_dir", str(programs_folder()))

    def model_function(self, model: SequenceModel, function: Callable, signature: Sequence[Any]) -> JaxFunction:
        """See the base class."""
        return JaxFunction(model, function, signature)

    def batch_search(
        self, model: SequenceModel, settings: SearchSettings, extra_length: int, shortlist: Shortlist | None = None
    ) -> JaxBatchSearch:
        """See the base class."""
        return JaxBatchSearch(model, settings, extra_length, shortlist, shrinks=not self.on_accelerators())

    def devices_of(self, model: SequenceModel) -> list[str]:
        """See the base class."""
        return devices_of(model)

    def use_device(self, number: int, name: str) -> contextlib.AbstractContextManager[None]:
        """See the base class."""
        return use_device(number)

    def on_accelerators(self) -> bool:
        """See the base class."""
        return jax.default_backend() != "cpu"

    def use_single_core_ops(self) -> None:
        """Does nothing: XLA runs what is large enough on several cores."""
