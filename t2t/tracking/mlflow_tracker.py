"""Sends runs to MLflow (https://mlflow.org): hparams become params, figures become metrics by number of the update."""

import os
from collections.abc import Sequence
from typing import Any

from t2t.checkpoints.run_dir import RunDir
from t2t.errors import needs_extra
from t2t.tracking.run_tracker import FAILED, FINISHED, STOPPED, RunTracker, UpdateFigures

with needs_extra("mlflow", "MlflowTracker"):
    from mlflow.entities import Metric, Param
    from mlflow.exceptions import MlflowException
    from mlflow.tracking import MlflowClient

EXPERIMENT = "t2t"
"""Default experiment, if MLFLOW_EXPERIMENT_NAME is not set."""
MOST_METRICS, MOST_PARAMS, LONGEST_PARAM = 1000, 100, 6000
"""MLflow's limits: metrics and params of a request, characters of a param's value."""
_STATUS = {FINISHED: "FINISHED", STOPPED: "KILLED", FAILED: "FAILED"}


class MlflowTracker(RunTracker):
    """Sends a run to MLflow; see `RunTracker`.

    MLflow's MLFLOW_TRACKING_URI and MLFLOW_EXPERIMENT_NAME set the server and the experiment.
    """

    tracker = "mlflow"

    def begin(self, run: RunDir, name: str) -> str:
        """See `RunTracker`."""
        self._client = MlflowClient()
        found = self._find(name) if name else None
        if found is None:
            created = self._client.create_run(self._experiment(), run_name=run.path.name)
            self._id, self._known = created.info.run_id, {}
        else:
            self._client.update_run(name, status="RUNNING")
            self._id, self._known = name, found.data.params
        return self._id

    def _find(self, name: str):
        """Returns the run with an id; None if it has been deleted."""
        try:
            found = self._client.get_run(name)
        except MlflowException as error:
            if error.error_code == "RESOURCE_DOES_NOT_EXIST":
                return None
            raise
        return found if found.info.lifecycle_stage == "active" else None

    def _experiment(self) -> str:
        """Returns the id of the experiment, which is created with its first run."""
        name = os.environ.get("MLFLOW_EXPERIMENT_NAME", EXPERIMENT)
        found = self._client.get_experiment_by_name(name)
        return found.experiment_id if found else self._client.create_experiment(name)

    def describe(self, hparams: dict[str, Any]) -> None:
        """Sends new params. MLflow rejects changed ones, which are sent as tags instead: `now.train_steps`."""
        values = {name: str(value)[:LONGEST_PARAM] for name, value in hparams.items()}
        new = [Param(name, value) for name, value in values.items() if name not in self._known]
        for some in _batched(new, MOST_PARAMS):
            self._client.log_batch(self._id, params=some)
        for name, value in values.items():
            if self._known.get(name, value) != value:
                self._client.set_tag(self._id, f"now.{name}", value)

    def send(self, reports: Sequence[UpdateFigures]) -> None:
        """See `RunTracker`."""
        metrics = [
            Metric(name, value, round(report.time * 1000), report.update)
            for report in reports
            for name, value in report.figures.items()
        ]
        for some in _batched(metrics, MOST_METRICS):
            self._client.log_batch(self._id, metrics=some)

    def finish(self, state: str) -> None:
        """See `RunTracker`."""
        self._client.set_tag(self._id, "state", state)
        self._client.set_terminated(self._id, _STATUS[state])


def _batched(items: list, most: int) -> list[list]:
    return [items[start : start + most] for start in range(0, len(items), most)]
