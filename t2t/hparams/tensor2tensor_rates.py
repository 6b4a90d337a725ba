"""Tensor2Tensor's learning rates, with the factors that its code applies and its hparams do not show.

Source: `legacy_learning_rate_schedule` in its utils/learning_rate.py. Its composed schedules have no such factors.
"""

_ADAM = 0.002
"""Factor of every schedule with the Adam optimizer."""


def noam_rate(rate: float) -> float:
    """Converts a rate of Tensor2Tensor's schedule `noam` to our `learning_rate`, the factor of the paper's formula."""
    return rate * (5000.0 * _ADAM)


def adam_rate(rate: float) -> float:
    """Converts a rate of any other legacy schedule to our `learning_rate`, the rate after warm-up."""
    return rate * _ADAM
