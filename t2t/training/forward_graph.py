"""The operations of a forward pass, traced and never run: what memory and cost are counted from."""

import numpy as np
import tensorflow as tf

from t2t.models.base import SequenceModel


def forward_graph(model: SequenceModel, batch: dict[str, np.ndarray]) -> tf.Graph:
    """Returns the graph of the training loss of a batch, with dropout; only the batch's shapes and dtypes matter."""
    signature = {name: tf.TensorSpec(array.shape, array.dtype) for name, array in batch.items()}

    def forward(features):
        seed = tf.zeros((2,), tf.int64)
        return model.loss_sum(model.body(features, seed=seed), features["targets"])

    return tf.function(forward, input_signature=[signature], autograph=False).get_concrete_function().graph
