"""Products with float32 results, against numpy's of the same operands."""

import ml_dtypes
import numpy as np
import pytest
import tensorflow as tf

from t2t.layers.attention import attention_weights
from t2t.layers.products import float32_product

HALVES = {"bfloat16": ml_dtypes.bfloat16, "float16": np.float16}


def operands(dtype, *shapes):
    rng = np.random.default_rng(0)
    return [rng.normal(size=shape).astype(dtype) for shape in shapes]


def exact(x, y):
    return x.astype(np.float64) @ np.swapaxes(y.astype(np.float64), -1, -2)


@pytest.mark.parametrize("dtype", HALVES)
def test_half_precision_is_multiplied_without_rounding_the_result(dtype):
    x, y = operands(HALVES[dtype], (2, 3, 7, 40), (2, 3, 5, 40))
    found = float32_product(tf.constant(x), tf.constant(y))
    assert found.dtype == tf.float32
    np.testing.assert_allclose(found, exact(x, y), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("dtype", HALVES)
def test_gradients_are_of_the_operands_types(dtype):
    x, y, up = operands(HALVES[dtype], (2, 7, 40), (2, 5, 40), (2, 7, 5))
    x, y = tf.constant(x), tf.constant(y)
    with tf.GradientTape() as tape:
        tape.watch([x, y])
        total = tf.reduce_sum(float32_product(x, y) * up.astype(np.float32))
    gradients = tape.gradient(total, [x, y])
    assert [g.dtype for g in gradients] == [x.dtype, y.dtype]
    transposed = np.swapaxes(up, 1, 2)
    wanted = exact(up, np.swapaxes(y.numpy(), 1, 2)), exact(transposed, np.swapaxes(x.numpy(), 1, 2))
    for one, other in zip(gradients, wanted, strict=True):
        np.testing.assert_allclose(one.numpy().astype(np.float64), other, rtol=0.01, atol=0.05)


def test_float32_is_the_plain_product_and_so_is_its_gradient():
    x, y = map(tf.constant, operands(np.float32, (4, 6), (3, 6)))
    with tf.GradientTape(persistent=True) as tape:
        tape.watch([x, y])
        found, plain = float32_product(x, y), tf.matmul(x, y, transpose_b=True)
    np.testing.assert_allclose(found, plain, rtol=1e-6)
    for one, other in zip(tape.gradient(found, [x, y]), tape.gradient(plain, [x, y]), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-6)


@pytest.mark.parametrize("dtype", HALVES)
def test_attention_weights_are_those_of_exact_scores(dtype):
    """Scores of some 30: rounded to bfloat16, weights would be off by percents."""
    q, k = operands(HALVES[dtype], (1, 1, 6, 64), (1, 1, 9, 64))
    q, k = q * HALVES[dtype](4), k * HALVES[dtype](4)
    scores = exact(q, k) / 8
    wanted = np.exp(scores - scores.max(-1, keepdims=True))
    found = attention_weights(tf.constant(q), tf.constant(k), None)
    np.testing.assert_allclose(found, wanted / wanted.sum(-1, keepdims=True), rtol=1e-3, atol=1e-6)
