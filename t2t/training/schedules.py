"""Learning rates: a pure function of the update, computed on the host."""

import math

from t2t.hparams.groups import ScheduleHParams


def learning_rate(schedule: ScheduleHParams, update: int, *, hidden_size: int, train_steps: int) -> float:
    """Returns the learning rate of an update; the first update is number 1.

    With s the update, w the warm-up, d the width, N the last update, r `learning_rate` and m `learning_rate_minimum`:

        noam          r * d^-0.5 * min(s^-0.5, s * w^-1.5)        (Vaswani et al. 2017, section 5.3, equation 3)
        rsqrt_decay   r * max(s, w)^-0.5                          (Shazeer and Stern 2018, algorithm 6: r 1, w 10,000)
        inverse_sqrt  r * min(s / w, (w / s)^0.5)
        constant      r * min(s / w, 1)
        linear        r * s / w, then falling linearly to m at N
        cosine        r * s / w, then falling along half a cosine to m at N
    """
    warmup = max(schedule.learning_rate_warmup_steps, 1)
    rate, shape = schedule.learning_rate, schedule.learning_rate_schedule
    if shape == "noam":
        return rate * hidden_size**-0.5 * min(update**-0.5, update * warmup**-1.5)
    if shape == "rsqrt_decay":
        return rate * max(update, warmup) ** -0.5
    if update < warmup:
        return rate * update / warmup
    if shape == "inverse_sqrt":
        return rate * math.sqrt(warmup / update)
    if shape == "constant":
        return rate
    done = min(1.0, (update - warmup) / max(train_steps - warmup, 1))
    left = 1.0 - done if shape == "linear" else 0.5 * (1.0 + math.cos(math.pi * done))
    return schedule.learning_rate_minimum + (rate - schedule.learning_rate_minimum) * left
