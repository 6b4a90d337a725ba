"""The mean of a run's best checkpoints, which training saves and evaluates at its end."""

import logging
import math

import numpy as np

from t2t.backends.workers import Workers
from t2t.checkpoints.averaging import AVERAGED_BEST, mean_checkpoint
from t2t.checkpoints.checkpoint import Checkpoint
from t2t.checkpoints.store import CheckpointStore
from t2t.errors import UserError
from t2t.metrics import higher_is_better
from t2t.runs.run_evaluator import RunEvaluator
from t2t.training.step import UpdateStep
from t2t.training.weights import assign_model

log = logging.getLogger("t2t")


def average_best(store: CheckpointStore, step: UpdateStep, evaluator: RunEvaluator, workers: Workers) -> None:
    """Evaluates the mean of the ranked checkpoints, saves it as `averaged-best`, and logs whether it is better.

    All workers of a run call it and evaluate together; only the chief reads and writes checkpoints. Does nothing if the
    mean of the same checkpoints is already saved. The model gets its own weights back at the end.

    Raises:
        UserError: a checkpoint is damaged.
        MachineError: the mean cannot be saved.
    """
    mean = _missing_mean(store) if workers.is_chief else None
    if not workers.gather([int(mean is not None)])[0, 0]:
        return
    own = {v.path: np.asarray(v) for v in step.model.variables}  # the mean has adapters merged into their base
    if mean is not None:
        assign_model(step.model, mean.model)
    try:
        workers.share([*step.state_variables, *step.ema], (0, {}))
        figures = evaluator()
    finally:
        assign_model(step.model, own)
    if mean is not None:
        store.save_named(AVERAGED_BEST, mean.step, model=mean.model, state=mean.state)
        _report(store, evaluator, figures)


def _missing_mean(store: CheckpointStore) -> Checkpoint | None:
    """Returns the mean of the ranked checkpoints; None if it is already saved, or there are fewer than two."""
    steps = [one.step for one in store.ranking() if store.has(one.step)]
    if len(steps) < 2 or (AVERAGED_BEST in store.names() and _averaged_steps(store) == steps):
        return None
    return mean_checkpoint(store, steps)


def _averaged_steps(store: CheckpointStore) -> list[int]:
    try:
        return store.load(AVERAGED_BEST, parts=()).state.get("averaged_steps", [])
    except UserError:  # damaged, or removed meanwhile
        return []


def _report(store: CheckpointStore, evaluator: RunEvaluator, figures: dict[str, float]) -> None:
    best, name = store.ranking()[0], evaluator.full_name
    value = figures[name]
    if value == best.value:
        verdict = "as good"
    else:
        verdict = (
            "better" if math.isfinite(value) and (value > best.value) == higher_is_better(evaluator.figure) else "worse"
        )
    which = AVERAGED_BEST if verdict == "better" else "best"
    log.info(
        "%s: the mean of the %d best checkpoints has %s %.4f on dev, the best one (step %d) %.4f: it is %s; decode "
        "with --checkpoint=%s",
        AVERAGED_BEST, len(store.ranking()), name, value, best.step, best.value, verdict, which,
    )  # fmt: skip
