"""Length penalties: hypotheses are ranked by log-probability divided by the penalty of their length.

A penalty maps n, a length in tokens including end of sequence, to a positive number that does not fall as n grows; the
stop rule of beam search relies on this. It takes floats, float arrays and float tensors.
"""

from collections.abc import Callable
from typing import Any

LengthPenalty = Callable[[Any], Any]
"""Length in tokens (float) to divisor."""


def gnmt(alpha: float) -> LengthPenalty:
    """Returns n -> ((5 + n) / 6)^alpha: Wu et al. 2016 (arXiv:1609.08144), equation 14."""
    return lambda n: ((5.0 + n) / 6.0) ** alpha


def power(alpha: float) -> LengthPenalty:
    """Returns n -> n^alpha; alpha 1 ranks by log-probability per token."""
    return lambda n: n**alpha


PENALTIES: dict[str, Callable[[float], LengthPenalty]] = {"gnmt": gnmt, "power": power}
"""By name; alpha is at least 0, where 0 ranks by plain log-probability."""
