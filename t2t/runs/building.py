"""Builds the model of a run with the weights of a checkpoint."""

import contextlib

import keras

from t2t.checkpoints.checkpoint import Checkpoint
from t2t.checkpoints.run_record import RunRecord
from t2t.checkpoints.transfer import require_exact
from t2t.hparams.base import HParams
from t2t.models.base import SequenceModel
from t2t.registry import MODELS
from t2t.training.engine import training_engine
from t2t.training.precision import FLOAT32
from t2t.training.weights import assign_model


def build_model(
    record: RunRecord, hparams: HParams, checkpoint: Checkpoint, devices: tuple[int, int] | None = None
) -> SequenceModel:
    """Returns the model of a run, of several problems the model of all.

    Args:
        record: of the run.
        hparams: of the run.
        checkpoint: its weights.
        devices: that get a copy of the weights, see `TrainingEngine.devices`; None for one.

    Raises:
        UserError: parts that do not fit together, or more devices than there are.
    """
    engine = training_engine()
    several = engine.devices(*devices) if devices else None
    keras.utils.set_random_seed(0)
    with several.scope() if several and several.replicas > 1 else contextlib.nullcontext():
        model = MODELS.get(record.model)(hparams, record.spec, dtype=engine.apply_precision(FLOAT32))
    weights = checkpoint.weights
    require_exact(weights, {v.path: tuple(v.shape) for v in model.variables}, f"checkpoint {checkpoint.folder}")
    assign_model(model, weights)
    return model
