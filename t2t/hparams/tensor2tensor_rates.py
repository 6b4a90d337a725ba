"""What Tensor2Tensor's learning rates come to: its programs multiply them by factors that its hparams do not show.

Source: `legacy_learning_rate_schedule` in its utils/learning_rate.py. Its composed schedules have no such factors.
"""

_ADAM = 0.002
"""Whatever the schedule, where the optimizer is Adam."""
_NOAM = 5000.0
"""On the paper's formula, beside the other."""


def noam_rate(rate: float) -> float:
    """Returns the factor on the paper's formula: `learning_rate` here for one there under the schedule `noam`."""
    return rate * (_NOAM * _ADAM)


def adam_rate(rate: float) -> float:
    """Returns the rate after warm-up: `learning_rate` here for one there under any other schedule of that time."""
    return rate * _ADAM
