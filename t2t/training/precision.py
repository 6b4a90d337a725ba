"""The hparam `precision`: the type of activations, and how a process multiplies float32 matrices.

By default TensorFlow multiplies and convolves them in TensorFloat-32 on NVIDIA's cards: operands are rounded to 11
binary digits, sums are float32.
"""

import tensorflow as tf

FLOAT32, TENSORFLOAT32 = "float32", "tensorfloat32"


def multiplies_bfloat16() -> bool:
    """Returns whether there are GPUs and all that are visible multiply bfloat16: NVIDIA's from Ampere (2020) on."""
    details = [tf.config.experimental.get_device_details(gpu) for gpu in tf.config.get_visible_devices("GPU")]
    return bool(details) and all(one.get("compute_capability", (0, 0)) >= (8, 0) for one in details)


def apply_precision(precision: str) -> str:
    """Sets how this process multiplies float32 matrices, and returns the Keras dtype policy of a model.

    `float32` is float32 throughout. The others allow TensorFloat-32, which loses nothing of operands that were 16-bit
    numbers, as under `mixed_bfloat16` and `mixed_float16`. It holds for all models of the process until the next call.
    """
    tf.config.experimental.enable_tensor_float_32_execution(precision != FLOAT32)
    return FLOAT32 if precision == TENSORFLOAT32 else precision
