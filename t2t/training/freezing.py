"""Freezes weights, which training then leaves unchanged."""

import math
import re
from collections.abc import Sequence

import keras

from t2t.errors import UserError
from t2t.models.base import SequenceModel


def freeze_weights(model: SequenceModel, pattern: str) -> None:
    """Freezes the weights whose path contains a match of a regular expression; call it before building the optimizer.

    Frozen weights have no gradient, slots, decay or moving average.

    Raises:
        UserError: the pattern is malformed, or matches no weight or all of them.
    """
    if not pattern:
        return
    trained = model.trainable_variables
    asked = f"hparam frozen_weights={pattern}"
    frozen = match_paths(trained, pattern, asked, "/encoder/|embedding")
    if len(frozen) in (0, len(trained)):
        some = ", ".join(variable.path for variable in trained[:5])
        raise UserError(
            f"{asked}: it matches {'all' if frozen else 'none'} of the {len(trained)} weights of the model, which are "
            f"{some} and so on; match some of them, or leave it out"
        )
    for variable in frozen:
        variable.trainable = False


def match_paths(variables: Sequence[keras.Variable], pattern: str, asked: str, example: str) -> list[keras.Variable]:
    """Returns the variables whose path contains a match of a regular expression.

    Raises:
        UserError: the pattern is malformed. The message names its source, `asked`, and an `example` of a valid one.
    """
    try:
        wanted = re.compile(pattern)
    except re.error as error:
        raise UserError(f"{asked}: it is no regular expression ({error}); write e.g. {example}") from None
    return [variable for variable in variables if wanted.search(variable.path)]


def frozen_line(model: SequenceModel, pattern: str) -> str:
    """Describes the frozen weights of a model in a line."""
    frozen = [variable for variable in model.variables if not variable.trainable and re.search(pattern, variable.path)]
    count = sum(math.prod(variable.shape) for variable in frozen)
    return f"frozen: {len(frozen)} of {len(model.variables)} weights, {count:,} parameters (frozen_weights={pattern})"
