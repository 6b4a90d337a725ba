"""Which weights are trained: all but frozen ones, or adapters in their place, as the hparams say."""

import math
import re
from collections.abc import Sequence

import keras

from t2t.errors import UserError, first_few
from t2t.hparams.groups import OptimizerHParams
from t2t.layers.adapters import Adapters
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
            f"{some} and so on",
            "match some of them, or leave it out",
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
        raise UserError(f"{asked}: it is not a regular expression ({error})", f"write e.g. {example}") from None
    return [variable for variable in variables if wanted.search(variable.path)]


def frozen_line(model: SequenceModel, pattern: str) -> str:
    """Describes the frozen weights of a model in a line."""
    frozen = [variable for variable in model.variables if not variable.trainable and re.search(pattern, variable.path)]
    count = sum(math.prod(variable.shape) for variable in frozen)
    return f"frozen: {len(frozen)} of {len(model.variables)} weights, {count:,} parameters (frozen_weights={pattern})"


def build_adapters(model: SequenceModel, hparams: OptimizerHParams) -> Adapters | None:
    """Returns adapters of the weights that `lora_targets` matches, and freezes the model; None where `lora_rank` is 0.

    Only weights of two or more axes can have an adapter. Adapters are created in the current scope of the devices.

    Raises:
        UserError: the pattern is malformed, or matches no weight that can have an adapter.
    """
    if not hparams.lora_rank:
        return None
    asked = f"hparam lora_targets={hparams.lora_targets}"
    possible = [variable for variable in model.trainable_variables if len(variable.shape) > 1]
    found = match_paths(possible, hparams.lora_targets, asked, "query_kernel|value_kernel")
    if not found:
        raise UserError(
            f"{asked}: it matches none of the {len(possible)} weights of {type(model).__name__} that can be adapted: "
            f"{first_few(_kinds(possible), ', ', most=20)}",
            "match some of these paths",
        )
    return Adapters(model, found, hparams.lora_rank, hparams.lora_alpha)


def _kinds(variables: Sequence[keras.Variable]) -> list[str]:
    """Returns the distinct paths of variables within their model, with * for numbers, such as those of layers."""
    return list(dict.fromkeys(re.sub(r"\d+", "*", variable.path.partition("/")[2]) for variable in variables))


def adapters_line(model: SequenceModel, adapters: Adapters, pattern: str) -> str:
    """Describes the adapters of a model in a line."""
    count = sum(math.prod(variable.shape) for variable in adapters.variables)
    whole = model.count_params()
    return (
        f"adapters: rank {adapters.rank} on {len(adapters.weights)} of {len(model.variables)} weights "
        f"(lora_targets={pattern}); {count:,} parameters are trained, {count / whole:.2%} of {whole:,}"
    )
