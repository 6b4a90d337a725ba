"""Cost of training in floating-point operations of matrix products, counted from the graph before anything runs.

A product of (m, k) and (k, n) takes 2 m k n operations; the backward pass takes two products of that size for each.
What is not a product (norms, softmax, dropout, the optimizer) is left out: it is a few percent.
"""

import math
from typing import NamedTuple

import numpy as np
import tensorflow as tf

from t2t.models.base import SequenceModel
from t2t.training.forward_graph import logits_graph

_PRODUCTS = ("MatMul", "BatchMatMul", "BatchMatMulV2", "BatchMatMulV3")
_CONVOLUTIONS = ("Conv2D", "Conv3D", "DepthwiseConv2dNative")


class UpdateCost(NamedTuple):
    """What the forward and backward pass of one batch take."""

    flops: int
    """Operations of the products outside loops."""
    loops: bool
    """Whether there are products in loops, e.g. over time: how often they run is not known beforehand, and they are
    left out."""


def update_cost(model: SequenceModel, batch: dict[str, np.ndarray]) -> UpdateCost:
    """Returns the cost of one batch; only its shapes matter."""
    graph = logits_graph(model, batch)
    flops = 3 * sum(_operation_flops(op) for op in graph.get_operations())  # forward once, backward twice
    in_loops = (node.op for body in graph.as_graph_def().library.function for node in body.node_def)
    return UpdateCost(flops, any(op in (*_PRODUCTS, *_CONVOLUTIONS) for op in in_loops))


def _operation_flops(op: tf.Operation) -> int:
    if op.type in _PRODUCTS:
        rows_last = op.get_attr("transpose_a" if op.type == "MatMul" else "adj_x")
        inner = op.inputs[0].shape[-2 if rows_last else -1]
    elif op.type in ("Conv2D", "Conv3D"):
        inner = math.prod(op.inputs[1].shape[:-1])
    elif op.type == "DepthwiseConv2dNative":
        inner = math.prod(op.inputs[1].shape[:2])
    else:
        return 0
    return 2 * math.prod(op.outputs[0].shape) * inner
