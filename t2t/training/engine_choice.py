"""Chooses the training engine by Keras's backend, `KERAS_BACKEND`."""

import functools

import keras

from t2t.errors import UserError
from t2t.training.engine import TrainingEngine


@functools.cache
def training_engine() -> TrainingEngine:
    """Returns the training engine for Keras's backend.

    Raises:
        UserError: the backend is neither TensorFlow nor JAX.
    """
    backend = keras.backend.backend()
    if backend == "tensorflow":
        from t2t.training.tensorflow.engine import TensorFlowTraining

        return TensorFlowTraining()
    if backend == "jax":
        from t2t.training.jax.engine import JaxTraining

        return JaxTraining()
    raise UserError(f"KERAS_BACKEND={backend}: training runs on tensorflow or jax; set it to one of them, or unset it")
