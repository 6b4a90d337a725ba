"""The precision of TensorFlow's matrix products, see `t2t.training.precision`."""

import tensorflow as tf

from t2t.training.precision import FLOAT32, policy_of


def multiplies_bfloat16() -> bool:
    """Returns whether there are GPUs and all visible ones multiply bfloat16: NVIDIA's since Ampere (2020)."""
    details = [tf.config.experimental.get_device_details(gpu) for gpu in tf.config.get_visible_devices("GPU")]
    return bool(details) and all(one.get("compute_capability", (0, 0)) >= (8, 0) for one in details)


def apply_precision(precision: str) -> str:
    """Sets how this process multiplies float32 matrices, and returns the Keras dtype policy of a model."""
    tf.config.experimental.enable_tensor_float_32_execution(precision != FLOAT32)
    return policy_of(precision)
