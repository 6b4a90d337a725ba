"""Graphs of the forward pass, traced but never run, from which memory and cost are counted."""

from collections.abc import Callable, Mapping

import numpy as np
import tensorflow as tf

from t2t.layers.attention import without_blockwise_attention
from t2t.models.base import SequenceModel

Features = Mapping[str, np.ndarray]


def loss_graph(model: SequenceModel, batch: Features) -> tf.Graph:
    """Returns the graph of the training loss of a batch, with dropout; only the batch's shapes and dtypes matter."""
    return _graph(lambda features, seed: model.loss_sum(model.body(features, seed=seed), features["targets"]), batch)


def logits_graph(model: SequenceModel, batch: Features) -> tf.Graph:
    """Returns the graph of all logits of a batch: the products of the training loss, none of them in a loop."""
    with without_blockwise_attention():
        return _graph(lambda features, seed: model(features, seed=seed), batch)


def _graph(forward: Callable, batch: Features) -> tf.Graph:
    signature = {name: tf.TensorSpec(array.shape, array.dtype) for name, array in batch.items()}
    function = tf.function(lambda features: forward(features, tf.zeros((2,), tf.int64)), autograph=False)
    return function.get_concrete_function(signature).graph
