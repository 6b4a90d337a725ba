"""Models of runs, loaded on demand and cached."""

import logging
import re
from collections import OrderedDict
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from t2t.checkpoints.run_dir import RunDir
from t2t.checkpoints.store import CheckpointStore
from t2t.errors import UserError
from t2t.runs.run_checks import check_own_checkpoints

if TYPE_CHECKING:
    from t2t.inference.translator import Translator

MOST_LOADED = 4
"""Usual largest number of models in memory: as many as the pages compare."""

log = logging.getLogger("t2t")


class LoadedModel(NamedTuple):
    """A translator with the weights of a checkpoint."""

    translator: "Translator"
    step: int
    """Number of updates of the checkpoint."""
    checkpoint: str | None = None
    """Name that later requests use for the same weights, also during training; None for a permanently loaded model."""


Loader = Callable[[RunDir, str], "tuple[Translator, int]"]
"""(run, checkpoint folder) -> the translator and its step."""


class LoadedModels:
    """Cache of the most recently used models; not thread-safe.

    Args:
        load: loads a model.
        most: largest number of models in memory.
    """

    def __init__(self, load: Loader, most: int = MOST_LOADED):
        self._load, self._most = load, most
        self._models: OrderedDict[tuple[Path, float], LoadedModel] = OrderedDict()

    def get(self, run: RunDir, checkpoint: str, only_text: bool = True) -> LoadedModel:
        """Returns the model of a checkpoint, `latest`, `best`, a step, ...; names are resolved at each call.

        Raises:
            UserError: no such checkpoint of the run, a failure to load, or with `only_text` inputs that are not text.
        """
        check_own_checkpoints([run], checkpoint)
        folder = CheckpointStore(run.checkpoints_folder).find(checkpoint)
        key = folder, folder.stat().st_mtime
        if key not in self._models:
            while len(self._models) >= self._most:
                (old, _), _ = self._models.popitem(last=False)
                log.info("model of %s leaves the memory", old)
            translator, step = self._load(run, str(folder))
            number = re.fullmatch(r"step-0*(\d+)", folder.name)
            self._models[key] = LoadedModel(translator, step, number[1] if number else folder.name)
        self._models.move_to_end(key)
        if only_text and not self._models[key].translator.reads_text:
            raise UserError(
                f"run {run.path}: its inputs are no text", "see what it answers to an example of the page Data"
            )
        return self._models[key]
