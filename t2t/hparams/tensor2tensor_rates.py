"""Tensor2Tensor's learning rates with the factors that its programs multiply them by and its hparams do not show.

Source: `legacy_learning_rate_schedule` in its utils/learning_rate.py. Its composed schedules have no such factors.
"""

_ADAM = 0.002
"""Factor under every schedule where the optimizer is Adam."""


def noam_rate(rate: float) -> float:
    """Returns the factor on the paper's formula: `learning_rate` here for one there under the schedule `noam`."""
    return rate * (5000.0 * _ADAM)


def adam_rate(rate: float) -> float:
    """Returns the rate after warm-up: `learning_rate` here for one there under any other schedule of that time."""
    return rate * _ADAM
