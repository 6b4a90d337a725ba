"""Weights that training leaves as they are."""

import math
import re

from t2t.errors import UserError
from t2t.models.base import SequenceModel

_SHOWN = 5


def freeze_weights(model: SequenceModel, pattern: str) -> None:
    """Makes weights of a model no part of training: no gradient, no slots, no decay, no moving average.

    Args:
        model: before its optimizer is built.
        pattern: regular expression; weights whose path holds a match are frozen; empty for none.

    Raises:
        UserError: the pattern is none, or matches no weight or all of them.
    """
    if not pattern:
        return
    asked = f"hparam frozen_weights={pattern}"
    try:
        wanted = re.compile(pattern)
    except re.error as error:
        raise UserError(f"{asked}: it is no regular expression ({error}); write e.g. /encoder/|embedding") from None
    trained = model.trainable_variables
    frozen = [variable for variable in trained if wanted.search(variable.path)]
    if len(frozen) in (0, len(trained)):
        some = ", ".join(variable.path for variable in trained[:_SHOWN])
        raise UserError(
            f"{asked}: it matches {'all' if frozen else 'none'} of the {len(trained)} weights of the model, which are "
            f"{some} and so on; match some of them, or leave it out"
        )
    for variable in frozen:
        variable.trainable = False


def frozen_line(model: SequenceModel, pattern: str) -> str:
    """Returns what is frozen of a model, for a person."""
    frozen = [variable for variable in model.variables if not variable.trainable and re.search(pattern, variable.path)]
    count = sum(math.prod(variable.shape) for variable in frozen)
    return f"frozen: {len(frozen)} of {len(model.variables)} weights, {count:,} parameters (frozen_weights={pattern})"
