"""Adapters that are trained in place of a model's weights, as the hparams say."""

import math
import re
from collections.abc import Sequence

import keras

from t2t.errors import UserError, first_few
from t2t.hparams.groups import OptimizerHParams
from t2t.layers.adapters import Adapters
from t2t.models.base import SequenceModel
from t2t.training.freezing import match_paths


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
            f"{first_few(_kinds(possible), ', ', most=20)}; match some of these paths"
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
