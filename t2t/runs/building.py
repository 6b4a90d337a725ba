"""Builds the model of a run with the weights of a checkpoint."""

import contextlib

import keras

from t2t.checkpoints.checkpoint import Checkpoint
from t2t.checkpoints.run_record import RunRecord
from t2t.checkpoints.transfer import require_exact
from t2t.hparams.base import HParams
from t2t.models.base import SequenceModel
from t2t.registry import MODELS


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
    strategy, policy = None, "float32"
    if keras.backend.backend() == "tensorflow":
        from t2t.training.distribute import build_strategy
        from t2t.training.precision import FLOAT32, apply_precision

        strategy, policy = build_strategy(*devices) if devices else None, apply_precision(FLOAT32)
    keras.utils.set_random_seed(0)
    with strategy.scope() if strategy and strategy.num_replicas_in_sync > 1 else contextlib.nullcontext():
        model = MODELS.get(record.model)(hparams, record.spec, dtype=policy)
    weights = checkpoint.weights
    require_exact(weights, {v.path: tuple(v.shape) for v in model.variables}, f"checkpoint {checkpoint.folder}")
    for variable in model.variables:
        variable.assign(weights[variable.path])
    return model
