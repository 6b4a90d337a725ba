"""Recurrences over positions, with and without lists of tensors, against a loop of numpy's.

Legend: T positions, B batch, C channels.
"""

import numpy as np
import pytest
import tensorflow as tf
from keras import ops

from t2t.layers.conversion import for_converters
from t2t.layers.loops import counted_loops, fold, scan

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
        with for_converters():
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
    with counted_loops():
        assert [turns(most=7), turns(most=None)] == [7, 3]
