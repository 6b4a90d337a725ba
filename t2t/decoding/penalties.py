"""Length penalties: hypotheses are ranked by their log-probability divided by one.

A penalty maps n, a length in tokens with end of sequence counted, to a positive number that does not fall as n grows,
which the stop rule of beam search needs. It takes floats, float arrays and float tensors.
"""

import math
from collections.abc import Callable
from typing import Any

from t2t.errors import UnknownNameError, UserError, did_you_mean

LengthPenalty = Callable[[Any], Any]
"""Length in tokens (float) to divisor."""


def gnmt(alpha: float) -> LengthPenalty:
    """Returns n -> ((5 + n) / 6)^alpha: Wu et al. 2016 (arXiv:1609.08144), equation 14."""
    _check_alpha("gnmt", alpha)
    return lambda n: ((5.0 + n) / 6.0) ** alpha


def power(alpha: float) -> LengthPenalty:
    """Returns n -> n^alpha; alpha 1 ranks by log-probability per token."""
    _check_alpha("power", alpha)
    return lambda n: n**alpha


PENALTIES: dict[str, Callable[[float], LengthPenalty]] = {"gnmt": gnmt, "power": power}


def length_penalty(name: str, alpha: float) -> LengthPenalty:
    """Returns the penalty of that name; alpha 0 ranks by plain log-probability.

    Raises:
        UnknownNameError: no such penalty.
        UserError: alpha is negative or not finite.
    """
    if name not in PENALTIES:
        raise UnknownNameError(
            f"length penalty {name!r} is not known; {did_you_mean(name, PENALTIES)}"
            f"there are gnmt, ((5+n)/6)^alpha, and power, n^alpha"
        )
    return PENALTIES[name](alpha)


def _check_alpha(name: str, alpha: float) -> None:
    if not (math.isfinite(alpha) and alpha >= 0):
        raise UserError(
            f"alpha {alpha} of length penalty {name}: it must be a number from 0 up, because the search stops on the "
            f"ground that a longer hypothesis is divided by no less; use 0 to rank by plain log-probability"
        )
