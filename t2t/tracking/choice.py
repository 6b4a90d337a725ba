"""The trackers by name, without importing any."""

import importlib
import importlib.util
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

from t2t.errors import UnknownNameError, did_you_mean, needs_extra


class TrackerChoice(NamedTuple):
    """Module and class of a tracker; its pip extra and its package have the tracker's name."""

    module: str
    class_name: str


TRACKERS = {
    "mlflow": TrackerChoice("t2t.tracking.mlflow_tracker", "MlflowTracker"),
    "wandb": TrackerChoice("t2t.tracking.wandb_tracker", "WandbTracker"),
}


def split_names(text: str) -> list[str]:
    """Returns the names in a value of `--track`, each once."""
    return list(dict.fromkeys(name.strip() for name in text.split(",") if name.strip()))


def check_trackers(names: Sequence[str]) -> None:
    """Raises UserError for an unknown name, or a tracker whose package is not installed."""
    for name in names:
        if name not in TRACKERS:
            near = did_you_mean(name, TRACKERS)
            raise UnknownNameError(f"--track={name}: there is no such tracker; {near}there are {', '.join(TRACKERS)}")
        with needs_extra(name, f"--track={name}"):
            found = importlib.util.find_spec(name)
            if found is None or found.origin is None:  # only a folder of that name, such as the one that wandb writes
                raise ModuleNotFoundError(name=name)


def build_trackers(names: Sequence[str], output_dir: Path) -> list[Any]:
    """Returns the trackers with these names, which are Keras callbacks, for the run in a folder."""
    choices = [TRACKERS[name] for name in names]
    return [getattr(importlib.import_module(one.module), one.class_name)(output_dir) for one in choices]
