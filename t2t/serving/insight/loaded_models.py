"""Models of runs that are loaded when something is asked of them."""

import logging
import re
from collections import OrderedDict
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from t2t.checkpoints.run_dir import RunDir
from t2t.checkpoints.store import CheckpointStore
from t2t.errors import UserError

if TYPE_CHECKING:
    from t2t.inference.translator import Translator

MOST_LOADED = 4
"""Models in memory at a time: as many as are compared."""

log = logging.getLogger("t2t")


class LoadedModel(NamedTuple):
    """A translator with the weights of a checkpoint."""

    translator: "Translator"
    step: int
    """Updates of the checkpoint."""
    checkpoint: str | None = None
    """By which a request names these weights whatever is trained meanwhile; None for what is always in memory."""


Loader = Callable[[RunDir, str], "tuple[Translator, int]"]
"""Loads a checkpoint of a run, named by its folder: a translator and the step."""


class LoadedModels:
    """Keeps the models that were asked for last; not for several threads at a time.

    Args:
        load: loads one.
        most: how many stay in memory.
    """

    def __init__(self, load: Loader, most: int = MOST_LOADED):
        self._load, self._most = load, most
        self._models: OrderedDict[tuple[Path, float], LoadedModel] = OrderedDict()

    def get(self, run: RunDir, checkpoint: str, only_text: bool = True) -> LoadedModel:
        """Returns the model of a checkpoint, `latest`, `best`, a step, ...: of the latest that there is by now.

        Raises:
            UserError: no such checkpoint, what loading raises, or inputs that are no text where `only_text`.
        """
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
                f"run {run.path}: its inputs are no text; see what it answers to an example of the page Data"
            )
        return self._models[key]
