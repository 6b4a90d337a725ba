"""Teacher-forced figures: how well a model predicts each token when the reference's tokens before it are given.

They do not measure the text that a model decodes, so wherever they are shown or stored, their names have a label.
"""

import dataclasses
import math
from collections.abc import Callable, Sequence
from typing import Self

from t2t.errors import UserError

LABEL = "teacher_forced/"


@dataclasses.dataclass(frozen=True)
class TokenSums:
    """Sums over target tokens, end of sequence included and padding left out; sums of parts add up to the whole."""

    loss_sum: float = 0.0
    """Sum of -ln p(token), nats, without label smoothing."""
    tokens: float = 0.0
    """Number of target tokens."""
    correct: float = 0.0
    """Tokens whose most probable prediction is right."""
    sequences: float = 0.0
    """Number of target sequences."""
    sequences_correct: float = 0.0
    """Sequences all of whose tokens are right."""

    def __add__(self, other: Self) -> Self:
        mine, others = dataclasses.astuple(self), dataclasses.astuple(other)
        return type(self)(*(a + b for a, b in zip(mine, others, strict=True)))


@dataclasses.dataclass(frozen=True)
class Figure:
    """One number made of the sums."""

    compute: Callable[[TokenSums], float]
    higher_is_better: bool
    for_all: bool = True
    """Whether all problems have it, or only those that name it."""


FIGURES = {
    "loss": Figure(lambda sums: sums.loss_sum / sums.tokens, False),  # nats
    "perplexity": Figure(lambda sums: _exp(sums.loss_sum / sums.tokens), False),
    "neg_log_perplexity": Figure(lambda sums: -sums.loss_sum / sums.tokens, True),
    "accuracy": Figure(lambda sums: sums.correct / sums.tokens, True),
    "accuracy_per_sequence": Figure(lambda sums: sums.sequences_correct / sums.sequences, True),
    "bits_per_dim": Figure(lambda sums: _bits_per_dim(sums), False, for_all=False),
}
"""By name, without the label."""


def teacher_forced(sums: TokenSums, named: Sequence[str] = ()) -> dict[str, float]:
    """Returns figures by labelled name, e.g. `teacher_forced/loss`: those of all problems, and those in `named`.

    Raises:
        UserError: there are no tokens or no sequences.
    """
    if sums.tokens <= 0 or sums.sequences <= 0:
        raise UserError(
            f"teacher-forced figures of {sums.tokens:g} tokens in {sums.sequences:g} sequences: there is nothing to "
            "average",
            "evaluate on a split that has examples",
        )
    return {
        LABEL + name: figure.compute(sums)
        for name, figure in FIGURES.items()
        if figure.for_all or name in named or LABEL + name in named
    }


def _bits_per_dim(sums: TokenSums) -> float:
    """Returns bits per dimension: the loss includes ends of sequences, the dimensions of an image do not."""
    dimensions = sums.tokens - sums.sequences
    return sums.loss_sum / math.log(2) / dimensions if dimensions > 0 else math.nan


def _exp(loss: float) -> float:
    """Returns e^loss, infinite where a diverging model leaves the range of floats."""
    try:
        return math.exp(loss)
    except OverflowError:
        return math.inf
