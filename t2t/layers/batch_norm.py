"""Batch normalisation: Ioffe and Szegedy 2015 (arXiv:1502.03167), algorithms 1 and 2.

Its moving statistics are variables without a gradient. A forward pass in training assigns them, and the training step
collects the assigned values; see `t2t.backends.update.LossFunction`.

Legend: B batch, C channels; any number of axes between them.
"""

import keras


class BatchNorm(keras.layers.BatchNormalization):
    """gamma * (x - mean) / sqrt(variance + epsilon) + beta for each of the last axis's channels.

    Mean and variance are those of the batch in calls with a seed, as in training, and otherwise the moving ones. A norm
    whose gamma is frozen always uses the moving ones and does not update them.
    """

    def __init__(self, **kwargs):
        super().__init__(momentum=0.9, epsilon=1e-5, **kwargs)

    def call(self, x, seed=None):
        """Returns (B, ..., C) in the layer's compute type; moments are float32."""
        return super().call(x, training=seed is not None and self.gamma.trainable)
