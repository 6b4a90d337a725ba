"""Builds the model of a run with the weights of a checkpoint."""

import contextlib

import keras

from t2t.backends.base import FLOAT32
from t2t.backends.choice import backend
from t2t.checkpoints.arrays import Arrays
from t2t.checkpoints.checkpoint import Checkpoint
from t2t.checkpoints.run_record import RunRecord
from t2t.checkpoints.transfer import require_exact
from t2t.hparams.base import HParams
from t2t.layers.adapters import Adapters
from t2t.models.adapted import AdaptedModel
from t2t.models.base import SequenceModel, create_model
from t2t.registry import MODELS
from t2t.specs.constants import ADAPTER_FACTORS
from t2t.training.weights import assign_model


def build_model(
    record: RunRecord, hparams: HParams, checkpoint: Checkpoint, devices: tuple[int, int, int] | None = None
) -> SequenceModel:
    """Returns the model of a run, for all of its problems.

    Args:
        record: of the run.
        hparams: of the run.
        checkpoint: provides the weights.
        devices: `worker_gpu`, `worker_cpu` and `weight_shards` for `Backend.devices`; None for one device.

    Raises:
        UserError: parts that do not fit together, or more devices than there are.
    """
    engine = backend()
    asked = engine.devices(*devices[:2], weight_shards=devices[2]) if devices else None
    several = asked if asked and len(asked.names) > 1 else None
    keras.utils.set_random_seed(0)
    with several.scope() if several else contextlib.nullcontext():
        model = create_model(MODELS.get(record.model), hparams, record.spec, engine.apply_precision(FLOAT32))
        weights = checkpoint.weights
        require_exact(weights, {v.path: tuple(v.shape) for v in model.variables}, f"checkpoint {checkpoint.folder}")
        assign_model(model, weights)
    if several:
        several.spread(model.variables)
    return model


def adapt_model(model: SequenceModel, factors: Arrays, scale: float) -> AdaptedModel:
    """Returns a model with adapters, on the same devices as `model`, whose weights stay unchanged.

    Args:
        model: the base.
        factors: A and B by path, all of one rank, see `t2t.checkpoints.adapters`.
        scale: s of W + s A B.
    """
    first = ADAPTER_FACTORS[0]
    adapted = [variable for variable in model.variables if f"{variable.path}/{first}" in factors]
    rank = factors[f"{adapted[0].path}/{first}"].shape[-1]
    with backend().scope_of(model):
        adapters = Adapters(model, adapted, rank, scale * rank)
    for variable in adapters.variables:
        variable.assign(factors[variable.path])
    return AdaptedModel(model, adapters)
