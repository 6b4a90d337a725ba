"""Shows how training goes: a bar on a terminal, plain lines elsewhere."""

import sys
import time
from typing import TextIO

import keras
from tqdm import tqdm

from t2t.metrics.token import LABEL
from t2t.training.trainer import Trainer


class ShowProgress(keras.callbacks.Callback):
    """Shows loss, tokens per second, learning rate and time left."""

    def __init__(self, trainer: Trainer, out: TextIO | None = None):
        super().__init__()
        self._trainer = trainer
        self._out = out or sys.stderr
        self._bar: tqdm | None = None
        self._began, self._began_at = 0, 0.0

    def on_train_begin(self, logs=None):
        """Begins to count."""
        self._began, self._began_at = self._trainer.update, time.monotonic()
        if self._out.isatty() and self._trainer.update < self._trainer.plan.train_steps:
            self._bar = tqdm(
                total=self._trainer.plan.train_steps, initial=self._trainer.update, unit=" updates", file=self._out,
                dynamic_ncols=True, smoothing=0.05, desc="training",
            )  # fmt: skip

    def on_train_batch_end(self, batch, logs=None):
        """Moves the bar; at log steps, shows the figures."""
        if self._bar is not None:
            self._bar.update(batch - self._bar.n)
            if logs:
                self._bar.set_postfix_str(_figures(logs), refresh=False)
        elif logs:
            self._line_of(batch, logs)

    def on_train_end(self, logs=None):
        """Shows what came after the last log step, and closes the bar."""
        if logs and self._bar is None:
            self._line_of(self._trainer.update, logs)
        if self._bar is not None:
            if logs:
                self._bar.set_postfix_str(_figures(logs))
            self._bar.close()
            self._bar = None

    def line(self, text: str) -> None:
        """Writes a line, above the bar where there is one."""
        if self._bar is not None:
            self._bar.write(text, file=self._out)
        else:
            print(text, file=self._out, flush=True)

    def show_evaluation(self, update: int, figures: dict[str, float]) -> None:
        """Writes the figures of an evaluation: of real decodes first, then the teacher-forced ones, labelled so."""
        decoded = [f"{name} {value:.4g}" for name, value in figures.items() if not name.startswith(LABEL)]
        forced = [
            f"{name.removeprefix(LABEL)} {value:.4g}" for name, value in figures.items() if name.startswith(LABEL)
        ]
        parts = ([f"{', '.join(decoded)} (real decodes)"] if decoded else []) + [
            f"{', '.join(forced)} (teacher-forced)"
        ]
        self.line(f"dev at update {update}: {'; '.join(parts)}")

    def _line_of(self, update: int, logs: dict[str, float]) -> None:
        last = self._trainer.plan.train_steps
        self.line(f"update {update}/{last}  {_figures(logs)}  {self._time_left(update)} left")

    def _time_left(self, update: int) -> str:
        rate = (time.monotonic() - self._began_at) / max(update - self._began, 1)
        return _clock(rate * (self._trainer.plan.train_steps - update))


def _figures(logs: dict[str, float]) -> str:
    return (
        f"loss {logs['loss']:.3f}  {logs['tokens_per_second']:,.0f} target tokens/s  lr {logs['learning_rate']:.2e}  "
        f"{logs['tokens_per_update']:,.0f} target tokens/update"
    )


def _clock(seconds: float) -> str:
    minutes, seconds = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02d}:{seconds:02d}"
