"""The cost of a forward pass, counted from its graph, which is traced and never run."""

import math
from collections.abc import Callable

import tensorflow as tf

from t2t.layers.mode import in_mode
from t2t.models.base import SequenceModel
from t2t.training.engine import Batch, ForwardCost


def loss_graph(model: SequenceModel, batch: Batch) -> tf.Graph:
    """Returns the graph of the training loss of a batch, with dropout; only the batch's shapes and dtypes matter."""
    return _graph(lambda features, seed: model.loss_sum(model.body(features, seed=seed), features["targets"]), batch)


def logits_graph(model: SequenceModel, batch: Batch) -> tf.Graph:
    """Returns the graph of all logits of a batch: the products of the training loss, none of them in a loop."""
    with in_mode(blockwise_attention=False):
        return _graph(lambda features, seed: model(features, seed=seed), batch)


def _graph(forward: Callable, batch: Batch) -> tf.Graph:
    signature = {name: tf.TensorSpec(array.shape, array.dtype) for name, array in batch.items()}
    function = tf.function(lambda features: forward(features, tf.zeros((2,), tf.int64)), autograph=False)
    return function.get_concrete_function(signature).graph


_PRODUCTS = ("MatMul", "BatchMatMul", "BatchMatMulV2", "BatchMatMulV3")
_CONVOLUTIONS = ("Conv2D", "Conv3D", "DepthwiseConv2dNative")
_FREE = frozenset({"Const", "ReadVariableOp", "Placeholder", "Identity", "Reshape", "NoOp", "StridedSlice", "Shape"})
"""Operations whose outputs are not counted as memory."""


def forward_cost(model: SequenceModel, batch: Batch) -> ForwardCost:
    """Returns the cost of all logits of a batch."""
    graph = logits_graph(model, batch)
    in_loops = (node.op for body in graph.as_graph_def().library.function for node in body.node_def)
    return ForwardCost(
        sum(_operation_flops(op) for op in graph.get_operations()),
        any(op in (*_PRODUCTS, *_CONVOLUTIONS) for op in in_loops),
    )


def forward_bytes(model: SequenceModel, batch: Batch) -> int:
    """Returns the total bytes of the intermediate tensors of a batch's training loss."""
    outputs = (
        tensor for op in loss_graph(model, batch).get_operations() if op.type not in _FREE for tensor in op.outputs
    )
    return sum(math.prod(t.shape) * t.dtype.size for t in outputs if t.shape.is_fully_defined() and t.dtype.size)


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
