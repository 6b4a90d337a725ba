"""The hparam `precision`: the type of activations, and how a process multiplies float32 matrices.

By default TensorFlow and JAX multiply and convolve float32 in TensorFloat-32 on NVIDIA GPUs: operands are rounded to 11
significant bits, sums are float32. `float32` is float32 throughout. All other values allow TensorFloat-32; operands
that were 16-bit numbers, as with `mixed_bfloat16` and `mixed_float16`, lose nothing by it.
"""

FLOAT32, TENSORFLOAT32 = "float32", "tensorfloat32"


def policy_of(precision: str) -> str:
    """Returns the Keras dtype policy of a model."""
    return FLOAT32 if precision == TENSORFLOAT32 else precision
