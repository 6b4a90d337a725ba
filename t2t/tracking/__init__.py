"""Experiment trackers: sends what a run writes to its folder to MLflow or Weights & Biases.

Use `t2t-trainer --track=mlflow`, or in Python the callbacks `MlflowTracker` and `WandbTracker`:

    from t2t.tracking import MlflowTracker

    t2t.train(..., output_dir="run", callbacks=[MlflowTracker("run")])

The packages of the trackers are imported at first use.
"""

import importlib.util
from pathlib import Path
from typing import TYPE_CHECKING, Any

from t2t.errors import UnknownNameError, did_you_mean, needs_extra

if TYPE_CHECKING:
    from t2t.tracking.mlflow_tracker import MlflowTracker
    from t2t.tracking.wandb_tracker import WandbTracker

__all__ = ["MlflowTracker", "WandbTracker"]
TRACKERS = {"mlflow": "MlflowTracker", "wandb": "WandbTracker"}
"""Name of a tracker, which is also that of its extra and its package -> class."""


def __getattr__(name: str) -> Any:
    if name == "MlflowTracker":
        from t2t.tracking.mlflow_tracker import MlflowTracker

        return MlflowTracker
    if name == "WandbTracker":
        from t2t.tracking.wandb_tracker import WandbTracker

        return WandbTracker
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def check_trackers(names: str) -> None:
    """Raises UserError for an unknown name in a value of `--track`, or a tracker whose package is not installed."""
    for name in split_names(names):
        if name not in TRACKERS:
            near = did_you_mean(name, TRACKERS)
            raise UnknownNameError(
                "there is no such tracker", f"{near}there are {', '.join(TRACKERS)}", option="track", value=name
            )
        with needs_extra(name, f"--track={name}"):
            found = importlib.util.find_spec(name)
            if found is None or found.origin is None:  # only a folder of that name, such as the one that wandb writes
                raise ModuleNotFoundError(name=name)


def build_trackers(names: str, output_dir: Path) -> list[Any]:
    """Returns the trackers that a value of `--track` names, which are Keras callbacks, for the run in a folder."""
    return [__getattr__(TRACKERS[name])(output_dir) for name in split_names(names)]


def split_names(names: str) -> list[str]:
    """Returns the names in a value of `--track`, each once."""
    return list(dict.fromkeys(name.strip() for name in names.split(",") if name.strip()))
