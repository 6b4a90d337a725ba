"""Kinds and sizes of what the functions of models take."""

import keras
import numpy as np

from t2t.data.columns import SEQUENCES, batch_dtype, item_shape
from t2t.models.base import SequenceModel


def inputs_signature(model: SequenceModel) -> keras.KerasTensor:
    """Returns the kind and sizes of a batch of inputs, or of prefixes where a model has no inputs."""
    spec = model.spec.inputs or model.spec.targets
    lengths = [None] if spec.kind in SEQUENCES else []
    return keras.KerasTensor([None, *lengths, *item_shape(spec)], batch_dtype(spec).name)


def signature_of(batch: dict[str, np.ndarray]) -> dict[str, keras.KerasTensor]:
    """Returns the kinds of a batch's features, of any size."""
    return {name: keras.KerasTensor([None] * array.ndim, array.dtype.name) for name, array in batch.items()}
