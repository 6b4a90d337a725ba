"""The hparam `precision`: the type of activations, and how a process multiplies float32 matrices.

By default TensorFlow and JAX multiply and convolve them in TensorFloat-32 on NVIDIA's cards: operands are rounded to 11
binary digits, sums are float32. `float32` is float32 throughout. The others allow TensorFloat-32, which loses nothing
of operands that were 16-bit numbers, as under `mixed_bfloat16` and `mixed_float16`.
"""

FLOAT32, TENSORFLOAT32 = "float32", "tensorfloat32"


def policy_of(precision: str) -> str:
    """Returns the Keras dtype policy of a model."""
    return FLOAT32 if precision == TENSORFLOAT32 else precision
