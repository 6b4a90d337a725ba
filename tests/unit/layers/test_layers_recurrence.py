"""Recurrences over positions: loops, SSRU, convolutional units, gradients that are written out.

Legend: T or P positions, B batch, R rows of a state, C and D channels.
"""

import gc
import weakref

import numpy as np
import pytest
import tensorflow as tf
from keras import ops

from t2t.layers.loops import fold, scan
from t2t.layers.mode import custom_gradient, in_mode
from t2t.models.classics.neural_gpu import DiagonalConvGru, unrolled
from t2t.models.transformer import SSRU_BLOCK, Ssru, linear_recurrence
from tests.builders import numpy, randomise

# === Loops, with and without lists of tensors ===

T, B, C = 5, 3, 4


def by_hand(x_TBC, y_TB1, reverse):
    """Returns the last sum and product, and those after each position, of the recurrence below."""
    total_BC, product_B1 = np.zeros((B, C), "float32"), np.ones((B, 1), "float32")
    totals, products = np.zeros((T, B, C), "float32"), np.zeros((T, B, 1), "float32")
    for t in reversed(range(T)) if reverse else range(T):
        total_BC = 0.5 * total_BC + x_TBC[t] * product_B1
        product_B1 = product_B1 * y_TB1[t]
        totals[t], products[t] = total_BC, product_B1
    return (total_BC, product_B1), (totals, products)


def recurrence(x_TBC, y_TB1, reverse):
    def step(state, given):
        return {"total": 0.5 * state["total"] + given[0] * state["product"], "product": state["product"] * given[1]}

    start = {"total": tf.zeros_like(x_TBC[0]), "product": tf.ones_like(y_TB1[0])}
    return scan(step, start, (x_TBC, y_TB1), reverse=reverse)


@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("lists", [False, True])
def test_states_are_those_of_a_loop(reverse, lists):
    rng = np.random.default_rng(3)
    x_TBC, y_TB1 = (rng.normal(size=(T, B, size)).astype("float32") for size in (C, 1))
    signature = [tf.TensorSpec([None, None, size]) for size in (C, 1)]
    traced = tf.function(lambda x, y: recurrence(x, y, reverse), input_signature=signature, autograph=False)
    if lists:
        last, states = traced(x_TBC, y_TB1)
    else:
        with in_mode(for_converters=True):
            last, states = traced(x_TBC, y_TB1)
    graph = traced.get_concrete_function().graph.as_graph_def()
    operations = {node.op for nodes in (graph.node, *(f.node_def for f in graph.library.function)) for node in nodes}
    assert any("TensorList" in operation for operation in operations) == lists
    (total, product), (totals, products) = by_hand(x_TBC, y_TB1, reverse)
    for found, expected in (
        (last["total"], total), (last["product"], product), (states["total"], totals), (states["product"], products),
    ):  # fmt: skip
        np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-6)


def test_a_counted_loop_goes_on_to_where_it_may_end_at_most():
    def turns(most):
        return int(
            fold(0, ops.convert_to_tensor(3), lambda i, turns: (turns + 1,), (ops.convert_to_tensor(0),), most)[0]
        )

    assert [turns(most=7), turns(most=None)] == [3, 3]
    with in_mode(counted_loops=True):
        assert [turns(most=7), turns(most=None)] == [7, 3]


# === SSRU by blocks ===

ROWS, D = 2, 3


def loop(factor_BTD, added_BTD):
    state, states = np.zeros((ROWS, D)), []
    for t in range(factor_BTD.shape[1]):
        state = factor_BTD[:, t] * state + added_BTD[:, t]
        states.append(state)
    return np.stack(states, axis=1)


def drawn(length):
    rng = np.random.default_rng(length)
    return rng.uniform(size=(ROWS, length, D)), rng.normal(size=(ROWS, length, D))


def gradients(factor, added, weights, **settings):
    @tf.function(input_signature=[tf.TensorSpec([None, None, D])] * 3, **settings)
    def call(factor, added, weights):
        with tf.GradientTape() as tape:
            tape.watch([factor, added])
            loss = tf.reduce_sum(weights * linear_recurrence(factor, added))
        return tape.gradient(loss, [factor, added])

    return call(*(tf.constant(x, tf.float32) for x in (factor, added, weights)))


@pytest.mark.parametrize("length", [1, SSRU_BLOCK - 1, SSRU_BLOCK, SSRU_BLOCK + 1, 5 * SSRU_BLOCK + 3])
def test_states_of_blocks_are_those_of_a_loop_over_positions(length):
    factor, added = drawn(length)
    found = linear_recurrence(*(tf.constant(x, tf.float32) for x in (factor, added)))
    np.testing.assert_allclose(numpy(found), loop(factor, added), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(("length", "compiled"), [(1, False), (2 * SSRU_BLOCK + 1, False), (2 * SSRU_BLOCK + 1, True)])
def test_gradients_are_the_slopes_of_the_loop(length, compiled):
    """Along a direction of each input, by central differences; XLA compiles them, too."""
    given, weights = drawn(length), np.random.default_rng(9).normal(size=(ROWS, length, D))
    for number, gradient in enumerate(gradients(*given, weights, jit_compile=compiled)):
        along = np.random.default_rng(number).normal(size=(ROWS, length, D))
        ends = []
        for step in (1e-5, -1e-5):
            moved = [x + step * along * (n == number) for n, x in enumerate(given)]
            ends.append((weights * loop(*moved)).sum())
        slope = (ends[0] - ends[1]) / 2e-5
        np.testing.assert_allclose((numpy(gradient) * along).sum(), slope, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("policy", ["mixed_bfloat16", "mixed_float16"])
def test_16_bit_sequences_have_float32_states(policy):
    layer = Ssru(dtype=policy)
    layer.build((None, None, D))
    randomise(layer)
    half = layer.compute_dtype
    x = tf.cast(np.random.default_rng(0).normal(size=(ROWS, 40, D)), half)
    product = tf.matmul(tf.reshape(x, (-1, D)), tf.cast(layer.kernel.value, half))
    gate, fresh = np.split(numpy(product).reshape(ROWS, 40, 2 * D), 2, axis=-1)
    forget = 1 / (1 + np.exp(-(gate + numpy(tf.cast(layer.gate_bias.value, half)))))
    states = np.maximum(loop(forget, (1 - forget) * fresh), 0)
    same = numpy(layer(x)) == numpy(tf.cast(tf.constant(states, tf.float32), half))
    assert same.mean() > 0.95


# === Convolutional units ===
@pytest.mark.parametrize("rows", [1, 2])
def test_turns_after_the_last_step_change_nothing(rows):
    rng = np.random.default_rng(0)
    unit = DiagonalConvGru(6, rows, 3, 0.0)
    unit.build((None, None, rows, 6))
    for variable in unit.variables:
        variable.assign(rng.normal(size=variable.shape))
    start_BPRC = ops.convert_to_tensor(rng.normal(size=(3, 8, rows, 6)).astype(np.float32))
    keep_BP = ops.convert_to_tensor(np.arange(8) < np.array([[2], [5], [0]]))  # five steps at most, eight positions
    state, cost = unrolled([unit], start_BPRC, keep_BP, steps_per_position=1)
    with in_mode(counted_loops=True):
        counted, counted_cost = unrolled([unit], start_BPRC, keep_BP, steps_per_position=1)
    np.testing.assert_array_equal(numpy(counted), numpy(state))
    assert float(counted_cost) == float(cost) > 0


# === Custom gradients, and programs without gradients ===
@custom_gradient
def tripled(x):
    """Its custom gradient is 5, wrong on purpose, to show which gradient is used."""

    def gradient(upstream):
        return 5.0 * upstream

    return 3.0 * x, gradient


def test_the_gradient_is_the_one_that_is_written_out():
    x = tf.constant([1.0, 2.0])
    with tf.GradientTape() as tape:
        tape.watch(x)
        y = tripled(x)
    np.testing.assert_array_equal(y, [3.0, 6.0])
    np.testing.assert_array_equal(tape.gradient(y, x), [5.0, 5.0])


def test_a_program_without_gradients_computes_the_same_and_goes_when_nobody_holds_it():
    with in_mode(gradients=False):
        program = tf.function(tripled, input_signature=[tf.TensorSpec([None])]).get_concrete_function()
    np.testing.assert_array_equal(program(tf.constant([1.0, 2.0])), [3.0, 6.0])
    graph = weakref.ref(program.graph)
    del program
    gc.collect()
    assert graph() is None
