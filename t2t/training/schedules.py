"""Learning rates: functions of the hparams and the update, computed on the host; plug-ins register their own.

In formulas: s is the update, w the warm-up, d the width, N the last update, r `learning_rate`, m its minimum.
"""

import functools
import math
from collections.abc import Callable

from t2t.hparams.base import HParams
from t2t.registry import SCHEDULES, register_schedule
from t2t.registry.overrides import PluginError, described, plugin_errors, shown

Schedule = Callable[[HParams, int], float]
"""`schedule(hparams, update)` -> the learning rate of an update; the first update is number 1."""


def learning_rate(hparams: HParams, update: int) -> float:
    """Returns the learning rate of an update, by the schedule of the hparams.

    Raises:
        PluginError: the schedule of a plug-in fails, or returns something else than a number of 0 or more.
    """
    schedule = SCHEDULES.get(hparams.learning_rate_schedule)
    with plugin_errors(schedule, f"failed at update {update}"):
        rate = schedule(hparams, update)
    if not hasattr(rate, "__float__") or not (math.isfinite(rate) and rate >= 0.0):
        raise PluginError(
            f"{described(schedule)} returned {shown(rate)} at update {update}", "return a number of 0 or more"
        )
    return float(rate)


def after_warmup(schedule: Schedule) -> Schedule:
    """Decorates a schedule: during the warm-up the rate rises linearly to `learning_rate`."""

    @functools.wraps(schedule)
    def rising(hparams: HParams, update: int) -> float:
        warmup = warmup_of(hparams)
        return hparams.learning_rate * update / warmup if update < warmup else schedule(hparams, update)

    return rising


def warmup_of(hparams: HParams) -> int:
    """Returns the number of updates of the warm-up, at least one."""
    return max(hparams.learning_rate_warmup_steps, 1)


def progress(hparams: HParams, update: int) -> float:
    """Returns how much of the updates after the warm-up is done, from 0 to 1."""
    warmup = warmup_of(hparams)
    return min(1.0, (update - warmup) / max(hparams.train_steps - warmup, 1))


@register_schedule
def noam(hparams: HParams, update: int) -> float:
    """Rises, then falls like s^-0.5: r * d^-0.5 * min(s^-0.5, s * w^-1.5) (Vaswani et al. 2017, equation 3)."""
    warmup = warmup_of(hparams)
    return hparams.learning_rate * hparams.hidden_size**-0.5 * min(update**-0.5, update * warmup**-1.5)


@register_schedule
def rsqrt_decay(hparams: HParams, update: int) -> float:
    """Constant, then falls like s^-0.5: r * max(s, w)^-0.5 (Shazeer and Stern 2018, algorithm 6: r 1, w 10,000)."""
    return float(hparams.learning_rate * max(update, warmup_of(hparams)) ** -0.5)


@register_schedule
@after_warmup
def inverse_sqrt(hparams: HParams, update: int) -> float:
    """After the warm-up, falls from r like s^-0.5: r * (w / s)^0.5."""
    return hparams.learning_rate * math.sqrt(warmup_of(hparams) / update)


@register_schedule
@after_warmup
def constant(hparams: HParams, update: int) -> float:
    """After the warm-up, stays at r."""
    return hparams.learning_rate


@register_schedule
@after_warmup
def linear(hparams: HParams, update: int) -> float:
    """After the warm-up, falls linearly from r to m at N."""
    return _falling(hparams, 1.0 - progress(hparams, update))


@register_schedule
@after_warmup
def cosine(hparams: HParams, update: int) -> float:
    """After the warm-up, falls along half a cosine from r to m at N."""
    return _falling(hparams, 0.5 * (1.0 + math.cos(math.pi * progress(hparams, update))))


def _falling(hparams: HParams, left: float) -> float:
    """Returns the rate where the fraction `left` of the way from m to r is left."""
    return hparams.learning_rate_minimum + (hparams.learning_rate - hparams.learning_rate_minimum) * left
