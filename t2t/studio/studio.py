"""The data behind the pages: runs, their metrics, and models loaded on demand."""

import logging
import re
from collections import OrderedDict
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from t2t.checkpoints.layout import BEST, LATEST
from t2t.checkpoints.run_dir import RunDir
from t2t.checkpoints.store import CheckpointStore
from t2t.errors import UserError
from t2t.runs.run_checks import check_own_checkpoints
from t2t.studio.run_folders import RunFolders
from t2t.studio.split_data import OpenedData, SplitData

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
                f"run {run.path}: its inputs are not text", "see what it answers to an example of the page Data"
            )
        return self._models[key]


Examples = Callable[[RunDir, str, int], tuple[list[str], list[str], int]]
"""(run, split, count) -> the first inputs and references of a split, and the number of its examples."""


class Studio:
    """Runs, models and data of the pages.

    Args:
        runs: the runs by name.
        models: models loaded on demand.
        served: permanently loaded models, by the name of their run.
        default: checkpoint for requests that name none.
        examples: reads examples of a split; None without a data folder.
        data: opens splits; None without a data folder.
        widest: largest beam, and largest number of outputs, that a request may ask for.
    """

    def __init__(
        self,
        runs: RunFolders,
        models: LoadedModels,
        served: Mapping[str, LoadedModel] | None = None,
        default: str = LATEST,
        examples: Examples | None = None,
        data: OpenedData | None = None,
        widest: int = 32,
    ):
        self.runs, self._models, self._served, self._default = runs, models, dict(served or {}), default
        self._examples, self._data, self.widest = examples, data, widest

    @property
    def has_data(self) -> bool:
        """Whether examples of splits can be read."""
        return self._examples is not None

    def model(self, name: Any, checkpoint: Any = None, only_text: bool = True) -> LoadedModel:
        """Returns the model of a run, loading it if needed; `checkpoint` None means the default one.

        Raises:
            UserError: no such run or checkpoint, or with `only_text` a model whose inputs are not text.
        """
        if name is None and (names := self.runs.names()):
            name = names[0]
        run = self.runs.run(name)
        if checkpoint is None and name in self._served:
            return self._served[name]
        if checkpoint is None:
            return self._models.get(run, self._default, only_text)
        store = CheckpointStore(run.checkpoints_folder)
        # No paths, so that requests cannot read other files.
        known = [LATEST, BEST, *store.names(), *map(str, store.steps())]
        if str(checkpoint) not in known:
            raise UserError(f"checkpoint {str(checkpoint)[:100]!r}: there is none", f"there are {', '.join(known)}")
        return self._models.get(run, str(checkpoint), only_text)

    def checkpoints(self, name: Any) -> dict[str, Any]:
        """Returns the checkpoints of a run: all steps, named ones, the best and the latest."""
        store = CheckpointStore(self.runs.run(name).checkpoints_folder)
        steps = store.steps()
        best = store.best()
        return {
            "steps": steps,
            "names": store.names(),
            "best": best.step if best and best.step in steps else None,
            "latest": store.latest(),
            "served": name in self._served,
        }

    def examples(self, name: Any, split: Any, count: int) -> dict[str, Any]:
        """Returns the first inputs and references of a split of the data that a run was trained on.

        Raises:
            UserError: no data folder was given, or its data does not belong to the run.
        """
        if self._examples is None:
            raise UserError("no data was named", "start t2t-insight with --data_dir, or give lines of your own")
        sources, references, total = self._examples(self.runs.run(name), str(split), count)
        return {"sources": sources, "references": references, "total": total}

    def data(self, name: Any, problem: Any, split: Any) -> SplitData:
        """Returns a split of the data that a run was trained on; an empty problem means the run's first.

        Raises:
            UserError: no data folder was given, or its data does not belong to the run.
        """
        run = self.runs.run(name)
        if self._data is None:
            there = f"; the run was trained from {run.record.data_dir}" if run.record.data_dir else ""
            raise UserError("no data was named", f"start t2t-insight with --data_dir=FOLDER{there}")
        return self._data.get(run, str(problem), str(split))
