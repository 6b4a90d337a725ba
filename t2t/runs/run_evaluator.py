"""Evaluation during training: dev figures, best checkpoints, listeners.

With several problems, each has figures `<problem>/<figure>` and its own best checkpoint. The run's best is chosen by
the mean over the problems of `best_metric`, or of the loss per token if that is not set.
"""

import contextlib
import logging
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from t2t.backends.workers import Workers
from t2t.checkpoints.averaging import AVERAGED_BEST, mean_checkpoint
from t2t.checkpoints.dev_outputs import DevOutputs, add_dev_outputs
from t2t.checkpoints.run_dir import RunDir
from t2t.checkpoints.store import CheckpointStore
from t2t.errors import UserError
from t2t.inference.parallel import Sharing
from t2t.metrics import LABEL, higher_is_better
from t2t.runs.evaluation import build_evaluator
from t2t.runs.trained_problems import TrainedProblem
from t2t.specs import DEV
from t2t.specs.features import MEAN
from t2t.training.callbacks.checkpoints import BestTracker
from t2t.training.step import UpdateStep
from t2t.training.weights import assign_model


class RunEvaluator:
    """Evaluates the problems of a run on their dev splits.

    Args:
        parts: the problems.
        eval_steps: batches of each split, 0 = all.
        best_metric: the hparam.
        sharing: workers that evaluate together.
    """

    def __init__(
        self, parts: Sequence[TrainedProblem], eval_steps: int, best_metric: str, sharing: Sharing | None = None
    ):
        self._parts = parts
        self.figure = parts[0].best_metric if len(parts) == 1 or best_metric else f"{LABEL}loss"
        """Figure that picks the run's best checkpoint."""
        self.full_name = f"{MEAN}/{self.figure}" if len(parts) > 1 else self.figure
        """Its name among the figures."""
        self._evaluators = [
            build_evaluator(
                part.model,
                part.data,
                DEV,
                part.hparams,
                eval_steps,
                (part.best_metric, *part.data.problem.metrics),
                sharing,
            )
            for part in parts
        ]

    def __call__(self) -> dict[str, float]:
        """Returns every figure by name."""
        found = [evaluator() for evaluator in self._evaluators]
        if len(self._parts) == 1:
            return found[0]
        named = {
            f"{part.name}/{name}": value
            for part, figures in zip(self._parts, found, strict=True)
            for name, value in figures.items()
        }
        return named | {self.full_name: sum(figures[self.figure] for figures in found) / len(found)}

    def warm_up(self) -> None:
        """Evaluates the largest batches, so that running out of memory shows early."""
        for evaluator in self._evaluators:
            evaluator.warm_up()

    def loss(self, figures: Mapping[str, float]) -> float:
        """Returns the teacher-forced loss, its mean over several problems."""
        names = [f"{part.name}/{LABEL}loss" if part.name else f"{LABEL}loss" for part in self._parts]
        return sum(figures[name] for name in names) / len(names)

    def best_trackers(self, run: RunDir, store: CheckpointStore, keep_best: int = 1) -> list[BestTracker]:
        """Returns trackers of the best checkpoints of the run, which keeps `keep_best`, and of each of its problems."""

        def tracker(figure: str, of: str, keep_best: int) -> BestTracker:
            name = f"{of}/{figure}" if of else figure
            key = f"dev/{name}"
            lines = (line for line in run.metrics() if key in line)
            history = [(line["step"], math.nan if line[key] is None else line[key]) for line in lines]
            return BestTracker(store, name, higher_is_better(figure), history, "" if of == MEAN else of, keep_best)

        if len(self._parts) == 1:
            return [tracker(self.figure, "", keep_best)]
        return [tracker(self.figure, MEAN, keep_best), *(tracker(one.best_metric, one.name, 1) for one in self._parts)]

    def write_outputs(self, run: RunDir, update: int, figures: dict[str, float]) -> None:
        """Stores the outputs for some sentences of each problem in the run's folder."""
        found = [
            DevOutputs.pick(update, part.name, evaluator.sources, references, outputs)
            for part, evaluator in zip(self._parts, self._evaluators, strict=True)
            if evaluator.decoded is not None
            for outputs, references in [evaluator.decoded]
        ]
        if found:
            add_dev_outputs(run.dev_outputs_file, found)

    def show_each(self, show: Callable[..., Any], update: int, figures: dict[str, float]) -> None:
        """Calls `show(update, figures, problem)` for each problem."""
        names = [part.name for part in self._parts]
        for of in [*names, MEAN] if len(names) > 1 else names:
            start = f"{of}/" if of else ""
            own = {name.removeprefix(start): value for name, value in figures.items() if name.startswith(start)}
            show(update, own, of)


log = logging.getLogger("t2t")


def average_best(store: CheckpointStore, step: UpdateStep, evaluator: RunEvaluator, workers: Workers) -> None:
    """Evaluates the mean of the ranked checkpoints, saves it as `averaged-best`, and logs whether it is better.

    All workers of a run call it and evaluate together; only the chief reads and writes checkpoints. Does nothing if the
    mean of the same checkpoints is already saved. The model gets its own weights back at the end.

    Raises:
        UserError: a checkpoint is damaged.
        MachineError: the mean cannot be saved.
    """
    mean = None
    if workers.is_chief:
        steps, saved = [one.step for one in store.ranking() if store.has(one.step)], None
        if AVERAGED_BEST in store.names():
            with contextlib.suppress(UserError):  # damaged, or removed meanwhile
                saved = store.load(AVERAGED_BEST, parts=()).state.get("averaged_steps")
        mean = mean_checkpoint(store, steps) if len(steps) > 1 and saved != steps else None
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
