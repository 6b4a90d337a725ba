"""The choice of the backend, which is Keras's: `KERAS_BACKEND`."""

import functools

import keras

from t2t.backends.base import Backend
from t2t.errors import UserError


@functools.cache
def backend() -> Backend:
    """Returns the backend of this process, which is Keras's.

    Raises:
        UserError: Keras's backend is neither TensorFlow nor JAX.
    """
    name = keras.backend.backend()
    if name == "tensorflow":
        from t2t.backends.tensorflow.backend import TensorFlowBackend

        return TensorFlowBackend()
    if name == "jax":
        from t2t.backends.jax.backend import JaxBackend

        return JaxBackend()
    raise UserError(f"KERAS_BACKEND={name}: models run on tensorflow or jax", "set it to one of them, or unset it")


def check_tensorflow(need: str) -> None:
    """Raises UserError if models do not run on TensorFlow; `need` says what requires it."""
    if (name := keras.backend.backend()) != "tensorflow":
        raise UserError(f"KERAS_BACKEND={name}: {need}", "unset it for this")
