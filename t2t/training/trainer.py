"""The training loop: draws batches, updates, and calls the callbacks."""

import contextlib
import dataclasses
import logging
import math
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import keras
import numpy as np

from t2t.backends import backend
from t2t.backends.update import MINIMUM_SCALE
from t2t.errors import UserError, memory_errors_as_machine_errors, shapes_of
from t2t.training.callbacks.checks import checked_callbacks
from t2t.training.step import UpdateStats, UpdateStep

log = logging.getLogger("t2t")

Batches = Iterator[tuple[dict[str, np.ndarray] | None, dict[str, Any]]]
"""Endless pairs (batch, or None if it belongs to another worker; state of the data after it)."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class Plan:
    """How long to train and how often to report."""

    train_steps: int
    """Number of the last update."""
    micro_batches: int
    """Steps whose gradients are summed for one update."""
    rate: Callable[[int], float]
    """Learning rate of an update."""
    log_every: int = 50
    """Updates between two reports; only reports copy figures from the device."""
    problem_of: Callable[[int], str] = lambda update: ""
    """Name of the problem of an update; "" if the model has only one."""


class DivergedError(UserError):
    """A loss, gradient or weight is not finite, or an update had no target tokens."""


_CURE = "lower learning_rate, raise learning_rate_warmup_steps or set clip_grad_norm"
_ANEW = "in a new --output_dir with --warm_start_from"


class Trainer:
    """Trains a model. Everything periodic is a Keras callback; it gets logs at log steps only.

    `data_state` is the state of the data before the first of `batches`; `update` is the number of updates already done;
    `clock` returns seconds, by which the speed is told.
    """

    def __init__(
        self,
        step: UpdateStep,
        batches: Batches,
        data_state: dict[str, int],
        plan: Plan,
        update: int = 0,
        clock: Callable[[], float] = time.monotonic,
    ):
        self.step, self.batches, self.plan, self.update = step, batches, plan, update
        self.data_state = data_state
        """State of the data after the last update, from which a resumed run continues."""
        self.asks_to_stop = False
        """Whether the next updates ask all workers to stop."""
        self._pending: list[tuple[int, UpdateStats]] = []
        self._last_two: deque[UpdateStats] = deque(maxlen=2)
        self._clock = clock
        self._since = clock()

    def fit(self, callbacks: list[keras.callbacks.Callback]) -> int:
        """Trains to the plan's last update, or until a callback sets `model.stop_training`; returns updates done.

        Callbacks are called in their order; `CallEpochHooks` among them calls the hooks of epochs and tests. Those with
        a method `on_train_error`, which Keras does not know, are notified of an error.

        Raises:
            ArgumentError: an unsupported callback.
            DivergedError: an update had a loss or gradient that is not finite, or no target tokens.
            MachineError: the device ran out of memory.
        """
        model = self.step.model
        callbacks = checked_callbacks(callbacks)
        listeners = keras.callbacks.CallbackList(callbacks, model=model, steps=self.plan.train_steps)
        model.stop_training = False
        with _notify_of_errors(callbacks):
            listeners.on_train_begin()
            self._since = self._clock()
            while self.update < self.plan.train_steps and not model.stop_training:
                listeners.on_train_batch_begin(self.update)
                self._one_update()
                logs = self.report() if self.update % self.plan.log_every == 0 else None
                listeners.on_train_batch_end(self.update, logs)
            listeners.on_train_end(self.report() if self._pending else None)
        return self.update

    def warm_up(self, batches: Sequence[dict[str, np.ndarray]], problem: str = "") -> None:
        """Runs batches of a problem once, changing nothing, so that a lack of memory shows now.

        Where programs are compiled while updates run, only the first batch, which should need the most memory.
        """
        # More than two micro-batches need no more memory than two.
        count, replicas = min(self.plan.micro_batches, 2), len(self.step.own)
        if self.step.xla:
            self.step.compile([[[batch] * replicas] * count for batch in batches], problem)
            batches = batches[:1] if self.step.compiles_meanwhile else batches
        for first in range(0, len(batches), count):
            micro_batches = (list(batches[first : first + count]) * count)[:count]
            with _memory_errors(batches[first]), backend().compile_errors(self.step.xla, batches[first]):
                self.step.warm_up([[batch] * replicas for batch in micro_batches], problem)

    def time_update(self) -> float:
        """Computes the next update twice, and returns the seconds of the second time: the first compiles it.

        Of more than two micro-batches, two are computed. For a dry run: the weights change, and no callback is called.
        """
        micro_batches, update = self._draw()[0], self.update + 1
        some, rate, problem = micro_batches[:2], self.plan.rate(update), self.plan.problem_of(update)
        with _memory_errors(some[0][0]), backend().compile_errors(self.step.xla, some[0][0]):
            self.step.warm_up(some, problem)
            began = self._clock()
            float(self.step(some, update, rate, problem).loss_sum)  # waits for the device
        self.update = update
        return (self._clock() - began) * len(micro_batches) / len(some)

    def is_asked_to_stop(self) -> bool:
        """Returns whether the update before the last one asked to stop; so the device stays busy with the last one."""
        return len(self._last_two) == 2 and float(self._last_two[0].stops) > 0

    @contextlib.contextmanager
    def paused(self) -> Iterator[None]:
        """Context manager for what is done at checkpoints, whose time does not count as training; checks first."""
        self.check_finite()  # waits, so that the time of updates that are still to run counts
        began = self._clock()
        try:
            yield
        finally:
            self._since += self._clock() - began

    def check_finite(self) -> None:
        """Raises DivergedError if an update since the last report was not finite; waits for the device.

        With float16, overflows are expected while the loss scale is lowered; they count only at its minimum.
        """
        for update, stats in self._pending:
            lowers_scale = float(stats.loss_scale) > MINIMUM_SCALE and float(stats.tokens)
            if not bool(stats.finite) and not lowers_scale:
                raise DivergedError(self._diverged(update, stats))

    def check_weights(self, weights: Mapping[str, np.ndarray]) -> None:
        """Raises DivergedError if a weight is not finite, which otherwise only the next update's loss would show."""
        spoilt = [path for path, array in weights.items() if not np.isfinite(array).all()]
        if spoilt:
            which = f"{spoilt[0]} and {len(spoilt) - 1} more variables are" if len(spoilt) > 1 else f"{spoilt[0]} is"
            raise DivergedError(
                f"training diverged by update {self.update}: {which} not finite, and not saved", f"{_CURE}, {_ANEW}"
            )

    def report(self) -> dict[str, float]:
        """Returns the figures since the last report: loss per token, tokens per second, padding, rate, norm.

        The loss is the mean over the updates that were applied, the norm that of the last one; NaN if none was.
        """
        self.check_finite()
        applied = [stats for _, stats in self._pending if bool(stats.finite)]
        scored = sum(float(stats.tokens) for stats in applied)
        tokens = sum(float(stats.tokens) for _, stats in self._pending)
        now = self._clock()
        logs = {
            "loss": sum(float(stats.loss_sum) for stats in applied) / scored if applied else math.nan,
            "tokens_per_second": tokens / max(now - self._since, 1e-9),
            "tokens_per_update": tokens / max(len(self._pending), 1),
            "padding": 1.0 - tokens / max(sum(float(stats.padded) for _, stats in self._pending), 1.0),
            "learning_rate": self.plan.rate(max(self.update, 1)),
            "grad_norm": float(applied[-1].grad_norm) if applied else math.nan,
            **self._by_problem(),
            **self._skipped(),
            **self.step.objective.figures(),
        }
        self._pending, self._since = [], now
        return logs

    def _by_problem(self) -> dict[str, float]:
        """Returns the loss of each problem that was trained since the last report; empty if there is only one."""
        sums: dict[str, list[float]] = {}
        for update, stats in self._pending:
            if (problem := self.plan.problem_of(update)) and bool(stats.finite):
                totals = sums.setdefault(f"{problem}/loss", [0.0, 0.0])
                totals[0] += float(stats.loss_sum)
                totals[1] += float(stats.tokens)
        return {name: loss_sum / tokens for name, (loss_sum, tokens) in sorted(sums.items())}

    def _skipped(self) -> dict[str, float]:
        """With float16, returns the number of updates skipped since training began, and logs the new ones."""
        if not self.step.loss_scale.dynamic:
            return {}
        new = [update for update, stats in self._pending if not bool(stats.finite)]
        if new:
            log.info(
                "update %s skipped: the gradients overflowed float16; the loss scale is %g now",
                ", ".join(map(str, new)), float(self.step.loss_scale.value()),
            )  # fmt: skip
        return {"skipped_updates": float(self.step.skipped(self.update))}

    def _one_update(self) -> None:
        micro_batches, state = self._draw()
        self.update += 1
        first = micro_batches[0][0]
        with _memory_errors(first), backend().compile_errors(self.step.xla, first):
            rate, problem = self.plan.rate(self.update), self.plan.problem_of(self.update)
            stats = self.step(micro_batches, self.update, rate, problem, self.asks_to_stop)
        self.data_state = state
        self._pending.append((self.update, stats))
        self._last_two.append(stats)

    def _draw(self) -> tuple[list[list[dict[str, np.ndarray]]], dict[str, int]]:
        """Returns this worker's next batches by micro-batch and replica, and the data state after them."""
        sizes = self.plan.micro_batches, self.step.replicas
        drawn = [[next(self.batches) for _ in range(sizes[1])] for _ in range(sizes[0])]
        return [[batch for batch, _ in replicas if batch is not None] for replicas in drawn], drawn[-1][-1][1]

    def _diverged(self, update: int, stats: UpdateStats) -> str:
        if not float(stats.tokens):
            return (
                f"update {update} has no target tokens: its batches hold nothing but padding, which id 0 stands for; "
                f"nothing was learnt from them; check what the problem's encode_samples gives"
            )
        loss = float(stats.loss_sum) / float(stats.tokens)
        found = f"loss {loss:.4g}, gradient norm {float(stats.grad_norm):.4g}; that update was not applied"
        cure = _CURE
        if self.step.loss_scale.dynamic:
            found += f", and the loss scale of float16 has fallen to {MINIMUM_SCALE:g}, the least there is"
            cure = f"train with --hparams=precision=mixed_bfloat16 or float32, or {cure}"
        return f"training diverged at update {update}: {found}; {cure}, {_ANEW}"


def _memory_errors(batch: dict[str, Any]):
    return memory_errors_as_machine_errors(
        shapes_of(batch),
        "halve batch_size and keep the update as it is with effective_batch_size, e.g. "
        "--hparams=batch_size=2048,effective_batch_size=4096",
    )


@contextlib.contextmanager
def _notify_of_errors(callbacks: Sequence[keras.callbacks.Callback]) -> Iterator[None]:
    """Context manager that calls the `on_train_error` of callbacks that have one if an error ends training."""
    try:
        yield
    except BaseException:
        for callback in callbacks:
            if hook := getattr(callback, "on_train_error", None):
                hook()
        raise
