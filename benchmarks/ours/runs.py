"""Builds a training run from a job, as `t2t-trainer` does from its flags."""

from typing import Any

from benchmarks.harness.prepared import PROBLEM
from t2t.runs.startup import prepare_framework


def build_run(job: dict[str, Any], train_steps: int, log_every: int, **how: int):
    """Returns the `t2t.runs.training.TrainingRun` that a job describes.

    Args:
        job: `data_dir`, `output_dir`, `overrides`, `seed`; optionally `model` and `hparams_set`, by default
            `transformer` and `transformer_base`.
        train_steps: number of the last update, counted from 1.
        log_every: updates between two log entries.
        how: further fields of `RunConfig`; by default there are no evaluations, and one checkpoint at the end.
    """
    prepare_framework()
    from t2t.runs.config import RunConfig
    from t2t.runs.experiment import Experiment
    from t2t.runs.training import TrainingRun

    options = {
        "problem": PROBLEM,
        "model": job.get("model", "transformer"),
        "hparams_set": job.get("hparams_set", "transformer_base"),
        "hparams": job["overrides"],
        "train_steps": train_steps,
        "data_dir": job["data_dir"],
        "output_dir": job["output_dir"],
        "random_seed": job["seed"],
        "log_step_count_steps": log_every,
        "eval_steps": 0,
        "local_eval_frequency": train_steps + 1,
        **how,
    }
    return TrainingRun(Experiment.resolve(RunConfig.given(options)))
