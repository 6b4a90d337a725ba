"""A training run as `t2t-trainer` makes it, from a job."""

from typing import Any

from benchmarks.harness.prepared import PROBLEM
from t2t.runs.startup import import_quietly


def build_run(job: dict[str, Any], train_steps: int, log_every: int, **how: int):
    """Returns the `t2t.runs.training.TrainingRun` that a job describes.

    Args:
        job: `data_dir`, `output_dir`, `overrides`, `seed`; `model` and `hparams_set`, by default those of the
            Transformer's base.
        train_steps: number of the last update.
        log_every: updates between two reports.
        how: further fields of `Settings`; without them, a checkpoint is written at the end alone.
    """
    training, names, data, settings = (
        import_quietly(f"t2t.runs.{name}") for name in ("training", "names", "data", "settings")
    )
    request = names.Request(
        problem=PROBLEM,
        model=job.get("model", "transformer"),
        hparams_set=job.get("hparams_set", "transformer_base"),
        overrides=job["overrides"],
        train_steps=train_steps,
        data_dir=job["data_dir"],
        output_dir=job["output_dir"],
    )
    resolved = names.resolve(request)
    how = {"eval_steps": 0, "eval_every": train_steps + 1, **how}
    carried_out = settings.Settings(seed=job["seed"], log_every=log_every, **how)
    return training.TrainingRun(resolved, data.open_all(request), carried_out)
