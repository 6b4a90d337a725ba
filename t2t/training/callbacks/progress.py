"""Shows the progress of training: a bar on a terminal, plain lines elsewhere."""

import math
import statistics
import sys
import time
from collections.abc import Callable
from typing import TextIO

import keras

from t2t.files.progress import Progress, about, spark_line, write_line
from t2t.metrics.token import LABEL
from t2t.specs.features import MEAN
from t2t.training.trainer import Trainer

_SPARKS = 10
"""Characters of the loss curve."""


class ShowProgress(keras.callbacks.Callback):
    """Shows loss, tokens per second, learning rate and time left; on a terminal also the last score and a curve."""

    def __init__(self, trainer: Trainer, out: TextIO | None = None):
        super().__init__()
        self._trainer, self._out = trainer, out or sys.stderr
        self._progress: Progress | None = None
        self._losses: list[float] = []
        self._score = ""

    def on_train_begin(self, logs=None):
        """Starts the progress bar, unless training is already done."""
        done, total = self._trainer.update, self._trainer.plan.train_steps
        if done < total:
            # Lines are written with the figures, at log steps, and at no other time.
            self._progress = Progress("training", "updates", total, done, out=self._out, seconds=math.inf)

    def on_train_batch_end(self, batch, logs=None):
        """Counts the update; at log steps, shows the figures."""
        self._progress.move_to(batch)
        if logs:
            self._show(logs)

    def on_train_end(self, logs=None):
        """Shows the figures since the last log step, and closes the bar."""
        if self._progress is not None:
            if logs:
                self._show(logs)
            self._progress.close()

    def line(self, text: str) -> None:
        """Writes a line, above the bar where there is one."""
        write_line(text, self._out)

    def show_evaluation(self, update: int, figures: dict[str, float], problem: str = "") -> None:
        """Writes the figures of an evaluation, real decodes before teacher-forced; `problem` is one of several."""
        groups: dict[str, list[str]] = {"real decodes": [], "teacher-forced": []}
        for name, value in figures.items():
            group = "teacher-forced" if name.startswith(LABEL) else "real decodes"
            groups[group].append(f"{name.removeprefix(LABEL)} {value:.4g}")
        if not problem or problem == MEAN:
            self._score = next((f"dev {texts[0]}" for texts in groups.values() if texts), "")
        parts = [f"{', '.join(texts)} ({group})" for group, texts in groups.items() if texts]
        self.line(f"dev at update {update}{f', {problem}' if problem else ''}: {'; '.join(parts)}")

    def _show(self, logs: dict[str, float]) -> None:
        progress = self._progress
        assert progress is not None, "training has begun"
        if progress.on_terminal:
            self._losses.append(logs["loss"])
            loss, *others = _figures(logs)
            takes_any = "utf" in (getattr(self._out, "encoding", None) or "").lower()
            curve = spark_line(self._losses, _SPARKS) if takes_any else ""
            progress.show_figures([f"{loss} {curve}".rstrip(), *filter(None, [self._score]), *others])
            return
        update, last = self._trainer.update, self._trainer.plan.train_steps
        self.line(f"update {update}/{last}  {'  '.join(_figures(logs))}  {progress.time_left() or 'unknown time'} left")


class EstimateTime(keras.callbacks.Callback):
    """Times the first updates and says once, in a line, how long training will take.

    Args:
        trainer: of the run.
        evaluates: whether evaluations come on top.
        memory: describes what is used, see `used_memory`.
        show: takes the line.
        clock: returns seconds.
        least_seconds: for which updates are timed, at least two of them and at most `MOST_UPDATES`.
    """

    MOST_UPDATES = 20

    def __init__(
        self,
        trainer: Trainer,
        evaluates: bool,
        memory: Callable[[], str],
        show: Callable[[str], None],
        clock: Callable[[], float] = time.monotonic,
        least_seconds: float = 3.0,
    ):
        super().__init__()
        self._least_seconds = least_seconds
        self._trainer, self._evaluates, self._memory, self._show = trainer, evaluates, memory, show
        self._clock, self._began, self._is_done = clock, 0.0, False
        self._first, self._seconds = trainer.update, list[float]()

    def on_train_batch_begin(self, batch, logs=None):
        """Notes the time."""
        self._began = self._clock()

    def on_train_batch_end(self, batch, logs=None):
        """Waits for the update, unless enough are timed.

        The first one does not count, as it waits for its batches, nor do those that run while programs are compiled.
        """
        if self._is_done or self._trainer.step.is_compiling:
            return
        self._trainer.check_finite()
        if self._trainer.update == self._first + 1:
            return
        self._seconds.append(self._clock() - self._began)
        count = len(self._seconds)
        if count < 2 or (count < self.MOST_UPDATES and sum(self._seconds) < self._least_seconds):
            return
        self._is_done = True
        counted = sorted(self._seconds)[: max(2, count - 1)]  # without the slowest, which may have been held up
        last = self._trainer.plan.train_steps
        self._show(time_line(statistics.fmean(counted), self._first, last, self._evaluates, self._memory()))


def time_line(seconds: float, done: int, last: int, evaluates: bool, memory: str) -> str:
    """Describes the time of the updates after `done` up to `last`, of so many seconds each, and the memory."""
    updates = f"the remaining {last - done:,}" if done else f"{last:,}"
    without = ", without evaluations" if evaluates else ""
    return f"training: about {about(seconds * (last - done))} for {updates} updates here{without}; {memory}"


def _figures(logs: dict[str, float]) -> list[str]:
    """Returns the figures as texts, the most important first."""
    skipped = int(logs.get("skipped_updates", 0))
    lost = f"{skipped:,} update{'s' * (skipped > 1)} skipped so far: gradients overflowed float16"
    return [
        f"loss {logs['loss']:.3f}",
        *([lost] if skipped else []),
        f"{logs['tokens_per_second']:,.0f} target tokens/s",
        f"lr {logs['learning_rate']:.2e}",
        f"{logs['tokens_per_update']:,.0f} target tokens/update",
    ]
