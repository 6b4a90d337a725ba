"""Builds the model of a run with the weights of a checkpoint, on TensorFlow."""

import contextlib

import keras
import tensorflow as tf

from t2t.checkpoints.arrays import Arrays
from t2t.checkpoints.checkpoint import Checkpoint
from t2t.checkpoints.run_dir import RunRecord
from t2t.checkpoints.transfer import require_exact
from t2t.hparams.base import HParams
from t2t.layers.adapters import Adapters
from t2t.models.adapted import AdaptedModel
from t2t.models.base import SequenceModel
from t2t.registry import MODELS
from t2t.specs.constants import ADAPTER_FACTORS
from t2t.training.distribute import build_strategy
from t2t.training.precision import FLOAT32, apply_precision
from t2t.training.weights import assign_model


def build_model(
    record: RunRecord, hparams: HParams, checkpoint: Checkpoint, devices: tuple[int, int] | None = None
) -> SequenceModel:
    """Returns the model of a run, of several problems the model of all.

    Args:
        record: of the run.
        hparams: of the run.
        checkpoint: its weights.
        devices: that get a copy of the weights, see `build_strategy`; None for one.

    Raises:
        UserError: parts that do not fit together, or more devices than there are.
    """
    strategy = build_strategy(*devices) if devices else None
    keras.utils.set_random_seed(0)
    with strategy.scope() if strategy and strategy.num_replicas_in_sync > 1 else contextlib.nullcontext():
        model = MODELS.get(record.model)(hparams, record.spec, dtype=apply_precision(FLOAT32))
    weights = checkpoint.weights
    require_exact(weights, {v.path: tuple(v.shape) for v in model.variables}, f"checkpoint {checkpoint.folder}")
    assign_model(model, weights)
    return model


def adapt_model(model: SequenceModel, factors: Arrays, scale: float) -> AdaptedModel:
    """Returns a model with adapters, on the devices of the model that they change; its weights are left as they are.

    Args:
        model: the base.
        factors: A and B by path, all of one rank, see `t2t.checkpoints.adapters`.
        scale: s.
    """
    first = ADAPTER_FACTORS[0]
    adapted = [variable for variable in model.variables if f"{variable.path}/{first}" in factors]
    rank = factors[f"{adapted[0].path}/{first}"].shape[-1]
    value = model.variables[0].value
    is_on_several = isinstance(value, tf.distribute.DistributedValues)
    with value.distribute_strategy.scope() if is_on_several else contextlib.nullcontext():
        adapters = Adapters(model, adapted, rank, scale * rank)
    for variable in adapters.variables:
        variable.assign(factors[variable.path])
    return AdaptedModel(model, adapters)
