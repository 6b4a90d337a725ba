"""Selects the inference backend, TensorFlow or JAX, to match Keras's backend."""

import functools

import keras

from t2t.errors import UserError
from t2t.inference.backend import Backend


def check_tensorflow(need: str) -> None:
    """Raises UserError if models do not run on TensorFlow; `need` says what requires it."""
    if (name := keras.backend.backend()) != "tensorflow":
        raise UserError(f"KERAS_BACKEND={name}: {need}; unset it for this")


@functools.cache
def inference_backend() -> Backend:
    """Returns the backend that runs the functions of models in this process.

    Raises:
        UserError: Keras's backend is neither TensorFlow nor JAX.
    """
    name = keras.backend.backend()
    if name == "tensorflow":
        from t2t.inference.tensorflow.backend import TensorFlowBackend

        return TensorFlowBackend()
    if name == "jax":
        from t2t.inference.jax.backend import JaxBackend

        return JaxBackend()
    raise UserError(f"KERAS_BACKEND={name}: models run on tensorflow or jax; set it to one of them, or unset it")
