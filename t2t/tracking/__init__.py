"""Experiment trackers: sends what a run writes to its folder to MLflow or Weights & Biases.

Use `t2t-trainer --track=mlflow`, or in Python the callbacks `MlflowTracker` and `WandbTracker`:

    from t2t.tracking import MlflowTracker

    t2t.train(..., output_dir="run", callbacks=[MlflowTracker("run")])

The packages of the trackers are imported at first use.
"""

import importlib
from typing import Any

_MODULES = {"MlflowTracker": "mlflow_tracker", "WandbTracker": "wandb_tracker"}
__all__ = list(_MODULES)


def __getattr__(name: str) -> Any:
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"{__name__}.{_MODULES[name]}"), name)
