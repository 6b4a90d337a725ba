"""Sends runs to Weights & Biases (https://wandb.ai): hparams become its config, figures are plotted by the update."""

import os
from collections.abc import Sequence
from typing import Any

from t2t.checkpoints.run_dir import RunDir
from t2t.errors import needs_extra
from t2t.tracking.run_tracker import FAILED, RunTracker, UpdateFigures

with needs_extra("wandb", "WandbTracker"):
    import wandb

PROJECT = "t2t"
"""Default project, if WANDB_PROJECT is not set."""
UPDATE = "update"


class WandbTracker(RunTracker):
    """Sends a run to Weights & Biases; see `RunTracker`.

    Its own WANDB_PROJECT, WANDB_ENTITY and WANDB_DIR set the destination; WANDB_MODE=offline writes files that
    `wandb sync` uploads later.
    """

    tracker = "wandb"

    def begin(self, run: RunDir, name: str) -> str:
        """See `RunTracker`."""
        self._wandb = wandb.init(
            project=os.environ.get("WANDB_PROJECT", PROJECT),
            name=run.path.name,
            id=name or None,
            resume="allow" if name else None,
            settings=wandb.Settings(console="off", silent=True),  # leaves the output of training alone
        )
        return self._wandb.id

    def describe(self, hparams: dict[str, Any]) -> None:
        """See `RunTracker`; also selects the update as the x axis of figures."""
        self._wandb.config.update(hparams, allow_val_change=True)
        # So updates repeated after a crash are plotted at their number; wandb's own steps could only grow.
        self._wandb.define_metric(UPDATE)
        self._wandb.define_metric("*", step_metric=UPDATE)

    def send(self, reports: Sequence[UpdateFigures]) -> None:
        """See `RunTracker`."""
        for report in reports:
            self._wandb.log({UPDATE: report.update, **report.figures})

    def finish(self, state: str) -> None:
        """See `RunTracker`."""
        self._wandb.summary["state"] = state
        self._wandb.finish(exit_code=int(state == FAILED))
