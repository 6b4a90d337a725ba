"""The rate at which TensorFlow multiplies large float32 matrices in this process."""

import time

import tensorflow as tf

SIDE = 2048
"""Rows and columns."""


def matrix_rate(seconds: float = 2.0) -> float:
    """Returns operations per second (2 n^3 per product) of the fastest product in a measurement of some seconds."""
    a, b = (tf.random.stateless_normal([SIDE, SIDE], [seed, 0]) for seed in (1, 2))
    multiply = tf.function(tf.matmul)
    multiply(a, b)
    times, end = [], time.perf_counter() + seconds
    while time.perf_counter() < end or len(times) < 3:
        began = time.perf_counter()
        multiply(a, b)[0, 0].numpy()
        times.append(time.perf_counter() - began)
    return 2 * SIDE**3 / min(times)
