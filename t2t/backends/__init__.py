"""What knows TensorFlow or JAX, for training and decoding: compiling functions of values, devices, workers, memory.

Begin in `base.py`: `Backend`, which `tensorflow/` and `jax/` implement; `backend()` chooses one. What an update is
made of is in `update.py`; the processes of a run are in `cluster.py`, their communication in `workers.py`.
"""

import functools
from typing import TYPE_CHECKING

from t2t.errors import UserError

if TYPE_CHECKING:
    from t2t.backends.base import Backend


@functools.cache
def backend() -> "Backend":
    """Returns the backend of this process, which is Keras's: the environment variable `KERAS_BACKEND`.

    Raises:
        UserError: Keras's backend is neither TensorFlow nor JAX.
    """
    name = _of_keras()
    if name == "tensorflow":
        from t2t.backends.tensorflow.backend import TensorFlowBackend

        return TensorFlowBackend()
    if name == "jax":
        from t2t.backends.jax.backend import JaxBackend

        return JaxBackend()
    raise UserError(f"KERAS_BACKEND={name}: models run on tensorflow or jax", "set it to one of them, or unset it")


def check_tensorflow(need: str) -> None:
    """Raises UserError if models do not run on TensorFlow; `need` says what requires it."""
    if (name := _of_keras()) != "tensorflow":
        raise UserError(f"KERAS_BACKEND={name}: {need}", "unset it for this")


def _of_keras() -> str:
    import keras  # here, since commands that only name a cluster need not wait for it

    return str(keras.backend.backend())
