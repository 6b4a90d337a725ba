"""Experiment trackers: sends what a run writes to its folder to MLflow or Weights & Biases.

Use `t2t-trainer --track=mlflow`, or in Python the callbacks `MlflowTracker` and `WandbTracker`:

    from t2t.tracking import MlflowTracker

    t2t.train(..., output_dir="run", callbacks=[MlflowTracker("run")])

The packages of the trackers are imported at first use.
"""

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
__all__ = [choice.class_name for choice in TRACKERS.values()]


def __getattr__(name: str) -> Any:
    for choice in TRACKERS.values():
        if choice.class_name == name:
            return getattr(importlib.import_module(choice.module), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


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
    return [__getattr__(TRACKERS[name].class_name)(output_dir) for name in names]
