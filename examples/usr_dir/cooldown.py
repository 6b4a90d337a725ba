"""A learning-rate schedule: inverse square root, then a cooldown (Zhai et al. 2022, arXiv:2106.04560).

t2t-trainer --hparams=learning_rate_schedule=my_cooldown,learning_rate=0.002,learning_rate_warmup_steps=100 ...
"""

from t2t import register_schedule
from t2t.training.schedules import inverse_sqrt

COOLDOWN = 0.2
"""Fraction of all updates in which the rate falls to 0."""


@register_schedule
def my_cooldown(hparams, update):
    """Inverse square root after the warm-up, falling linearly to 0 at the end (Zhai et al. 2022)."""
    left = (hparams.train_steps + 1 - update) / (COOLDOWN * hparams.train_steps)
    return inverse_sqrt(hparams, update) * max(0.0, min(1.0, left))
