import numpy as np
import pytest
import tensorflow as tf

from t2t.errors import MachineError
from t2t.training.tensorflow.xla_errors import xla_errors
from tests.errors import refused

BATCH = {"inputs": np.zeros((2, 8))}


@tf.function(jit_compile=True)
def uncompilable(x):
    return tf.strings.length(tf.strings.as_string(x))


def test_an_operation_that_xla_does_not_have_is_one_line_that_says_what_to_do():
    with refused("xla=on", "inputs", "8)", "--hparams=xla=off"), xla_errors(True, BATCH):
        uncompilable(tf.zeros([2]))


@pytest.mark.parametrize(
    ("enabled", "error"),
    [(True, tf.errors.InternalError(None, None, "Collective ops is aborted by: another worker has ended")),
     (False, tf.errors.InternalError(None, None, "XLA")), (True, MachineError("x")), (True, ValueError("x")),
     (True, tf.errors.ResourceExhaustedError(None, None, "x"))],
)  # fmt: skip
def test_other_errors_stay_what_they_are(enabled, error):
    with pytest.raises(type(error)) as caught, xla_errors(enabled, BATCH):
        raise error
    assert caught.value is error
