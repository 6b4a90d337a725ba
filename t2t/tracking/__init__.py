"""Runs in experiment trackers: MLflow and Weights & Biases hear of what a run writes to its folder.

`t2t-trainer --track=mlflow` does so, and in Python the callbacks `MlflowTracker` and `WandbTracker`:

    from t2t.tracking import MlflowTracker

    t2t.train(..., output_dir="run", callbacks=[MlflowTracker("run")])

They are imported when they are first used.
"""

import importlib
from typing import Any

_MODULES = {"MlflowTracker": "mlflow_tracker", "WandbTracker": "wandb_tracker"}
__all__ = list(_MODULES)


def __getattr__(name: str) -> Any:
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"{__name__}.{_MODULES[name]}"), name)
