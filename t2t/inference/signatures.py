"""Signatures of the functions of models: shapes and dtypes of their arguments."""

import keras
import numpy as np

from t2t.data.columns import SEQUENCES, batch_dtype, item_shape
from t2t.models.base import SequenceModel


def inputs_signature(model: SequenceModel) -> keras.KerasTensor:
    """Returns the signature of a batch of inputs, or of prefixes if the model has no inputs."""
    spec = model.spec.inputs or model.spec.targets
    lengths = [None] if spec.kind in SEQUENCES else []
    return keras.KerasTensor([None, *lengths, *item_shape(spec)], batch_dtype(spec).name)


def batch_signature(model: SequenceModel, batch: dict[str, np.ndarray]) -> dict[str, keras.KerasTensor]:
    """Returns the signature of a batch's features; numbers of rows and lengths are unknown, sizes of items known."""
    specs = {name: spec for name, spec in model.spec.features.items() if name in batch}
    items = {name: item_shape(specs[name]) if name in specs else () for name in batch}
    return {
        name: keras.KerasTensor([None] * (array.ndim - len(items[name])) + list(items[name]), array.dtype.name)
        for name, array in batch.items()
    }
