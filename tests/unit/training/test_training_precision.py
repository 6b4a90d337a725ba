"""Effect of each value of the hparam `precision` on the process and on a run's model."""

import dataclasses

import pytest
import tensorflow as tf

from t2t.hparams.groups import TrainHParams
from t2t.training.tensorflow.precision import apply_precision

CHOICES = {
    "float32": (False, "float32"),
    "tensorfloat32": (True, "float32"),
    "mixed_bfloat16": (True, "mixed_bfloat16"),
    "mixed_float16": (True, "mixed_float16"),
}
"""Whether TensorFloat-32 is allowed, and the dtype policy."""


@pytest.fixture(autouse=True)
def as_it_was():
    """Restores the process's settings after each test."""
    before = tf.config.experimental.tensor_float_32_execution_enabled()
    yield
    tf.config.experimental.enable_tensor_float_32_execution(before)


def test_float32_is_float32_and_the_others_allow_tensorfloat32():
    (field,) = (one for one in dataclasses.fields(TrainHParams) if one.name == "precision")
    assert ("auto", *CHOICES) == field.metadata["choices"]
    for precision, (allowed, policy) in (*CHOICES.items(), *reversed(CHOICES.items())):
        assert apply_precision(precision) == policy
        assert tf.config.experimental.tensor_float_32_execution_enabled() is allowed
