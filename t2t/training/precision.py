"""What the hparam `precision` makes of a process: the type of activations, and how float32 matrices are multiplied.

TensorFlow lets NVIDIA's cards multiply them, and convolve, in TensorFloat-32 unless it is told otherwise: operands are
rounded to 11 binary digits, sums are float32.
"""

import tensorflow as tf

FLOAT32, TENSORFLOAT32 = "float32", "tensorfloat32"


def apply_precision(precision: str) -> str:
    """Sets how this process multiplies float32 matrices, and returns the Keras dtype policy of a model.

    `float32` is float32 throughout. The others allow TensorFloat-32: under `mixed_bfloat16` and `mixed_float16` it
    loses nothing of operands that were 16-bit numbers, which is what float32 products are of there. The setting is the
    process's, so that it holds for all of its models until the next call.

    Args:
        precision: a choice of the hparam.
    """
    tf.config.experimental.enable_tensor_float_32_execution(precision != FLOAT32)
    return FLOAT32 if precision == TENSORFLOAT32 else precision
