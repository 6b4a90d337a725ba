"""The result of a search, and the length penalties that rank it: log-probability divided by the penalty of the length.

Legend: B sentences, K hypotheses of each, T the longest allowed length in tokens.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

NO_HYPOTHESIS = -1e9
"""Log-probability and score of a row that holds no hypothesis; finite, so that arithmetic on it stays defined.

A hypothesis exists where its log-probability is above half of this: sums that start here do not climb that far, and
real log-probabilities do not fall that far.
"""


class SearchResult(NamedTuple):
    """Hypotheses of a batch of sentences: of beam search best first, samples in the order drawn."""

    ids: Any
    """(B, K, T) int32: tokens without the first PAD_ID, with end of sequence where it was reached, zeros after it."""
    scores: Any
    """(B, K) float32: log-probability divided by the length penalty of the hypothesis, plus its coverage penalty."""
    log_probs: Any
    """(B, K) float32: natural logarithm of the probability of the whole hypothesis, end of sequence included."""
    lengths: Any
    """(B, K) int32: number of tokens, end of sequence included; 0 where there is no hypothesis."""


def exists(log_probs: Any) -> Any:
    """Returns which log-probabilities belong to a hypothesis that exists; same shape, bool."""
    return log_probs > NO_HYPOTHESIS / 2


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
