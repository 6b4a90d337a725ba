"""The precision of TensorFlow's matrix products, see `t2t.training.precision`."""

import os
from collections.abc import Mapping, Sequence
from typing import Any

import tensorflow as tf

from t2t.files import processor
from t2t.training.precision import FLOAT32, policy_of


def multiplies_bfloat16(details: Sequence[Mapping[str, Any]] | None = None) -> bool:
    """Returns whether all visible GPUs multiply bfloat16, NVIDIA's since Ampere (2020); without GPUs, the processor.

    `details` describes the GPUs; None for TensorFlow's description of those that are visible.
    """
    if details is None:
        details = [tf.config.experimental.get_device_details(gpu) for gpu in tf.config.get_visible_devices("GPU")]
    if not details:
        # TensorFlow multiplies with these instructions only by oneDNN.
        return os.environ.get("TF_ENABLE_ONEDNN_OPTS", "1") != "0" and processor.multiplies_bfloat16()
    return all(one.get("compute_capability", (0, 0)) >= (8, 0) for one in details)


def apply_precision(precision: str) -> str:
    """Sets how this process multiplies float32 matrices, and returns the Keras dtype policy of a model."""
    tf.config.experimental.enable_tensor_float_32_execution(precision != FLOAT32)
    return policy_of(precision)
