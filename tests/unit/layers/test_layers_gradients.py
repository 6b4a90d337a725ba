"""Custom gradients, and programs without gradients."""

import gc
import weakref

import numpy as np
import tensorflow as tf

from t2t.layers.gradients import custom_gradient, without_gradients


@custom_gradient
def tripled(x):
    """Its custom gradient is 5, wrong on purpose, to show which gradient is used."""

    def gradient(*args, upstream=None):
        return 5.0 * (args[0] if upstream is None else upstream)

    return 3.0 * x, gradient


def test_the_gradient_is_the_one_that_is_written_out():
    x = tf.constant([1.0, 2.0])
    with tf.GradientTape() as tape:
        tape.watch(x)
        y = tripled(x)
    np.testing.assert_array_equal(y, [3.0, 6.0])
    np.testing.assert_array_equal(tape.gradient(y, x), [5.0, 5.0])


def test_a_program_without_gradients_computes_the_same_and_goes_when_nobody_holds_it():
    with without_gradients():
        program = tf.function(tripled, input_signature=[tf.TensorSpec([None])]).get_concrete_function()
    np.testing.assert_array_equal(program(tf.constant([1.0, 2.0])), [3.0, 6.0])
    graph = weakref.ref(program.graph)
    del program
    gc.collect()
    assert graph() is None
