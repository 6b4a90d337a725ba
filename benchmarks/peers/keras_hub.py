"""Trains a Transformer of KerasHub layers with Keras's `fit` on TensorFlow.

Settings of Keras's documentation (*Model training APIs*, KerasHub's guide *English-to-Spanish translation with
KerasHub*): a `tf.data` pipeline that reads ahead, one graph function for all shapes (`jit_compile=False`: XLA would
compile each batch shape separately), and mixed precision with a float32 loss if the job asks for `bfloat16`. Each layer
has a single dropout rate, which also applies inside attention; norms follow each sub-layer.

Letters: B rows of a batch, S source length, T target length, V vocabulary.
"""

import os

os.environ["KERAS_BACKEND"] = "tensorflow"

import keras
import keras_hub
import numpy as np
import tensorflow as tf
from keras import ops

from benchmarks.harness.child import Clock, read_job, versions, write_result
from benchmarks.peers._batches import batches

PAD = 0
SMOOTHING = 0.1


def build(config, vocab_size):
    """Returns the model: from inputs (B, S) and targets shifted right (B, T) to logits (B, T, V)."""
    width = config["width"]
    initializer = keras.initializers.RandomNormal(stddev=width**-0.5)
    table = keras.layers.ReversibleEmbedding(vocab_size, width, embeddings_initializer=initializer)
    dropout, positions = keras.layers.Dropout(config["dropout"]), keras_hub.layers.SinePositionEncoding()

    def embed(ids):
        scaled = table(ids) * width**0.5
        return dropout(scaled + positions(scaled))

    sizes = {"intermediate_dim": config["inner"], "num_heads": config["heads"], "dropout": config["dropout"]}
    inputs, shifted = (keras.Input([None], dtype="int32", name=name) for name in ("inputs", "shifted"))
    keep = ops.not_equal(inputs, PAD)
    encoded, decoded = embed(inputs), embed(shifted)
    for _ in range(config["layers"]):
        encoded = keras_hub.layers.TransformerEncoder(**sizes)(encoded, padding_mask=keep)
    for _ in range(config["layers"]):
        # Target padding needs no mask: it is at the end, where it has no loss and is not attended to.
        decoded = keras_hub.layers.TransformerDecoder(**sizes)(decoded, encoded, encoder_padding_mask=keep)
    return keras.Model([inputs, shifted], table(decoded, reverse=True))


def loss_of(targets, logits):
    """Returns the mean cross-entropy of logits (B, T, V) with smoothed targets (B, T), without padding."""
    log_probs = ops.log_softmax(ops.cast(logits, "float32"))
    expected = ops.take_along_axis(log_probs, ops.expand_dims(ops.cast(targets, "int32"), -1), -1)
    each = -(1 - SMOOTHING) * ops.squeeze(expected, -1) - SMOOTHING * ops.mean(log_probs, -1)
    keep = ops.cast(ops.not_equal(targets, PAD), "float32")
    return ops.sum(each * keep) / ops.sum(keep)


class _Timed(keras.callbacks.Callback):
    """Sets the learning rate before every update, and ticks the clock after it."""

    def __init__(self, clock):
        super().__init__()
        self.clock, self.loss, self._sum = clock, 0.0, 0.0

    def on_train_batch_begin(self, batch, logs=None):
        update = batch + 1
        self.model.optimizer.learning_rate = 2e-3 * min(update / 100, (100 / update) ** 0.5)

    def on_train_batch_end(self, batch, logs=None):
        total = float(logs["loss"]) * (batch + 1)  # Keras reports the mean over all updates
        self.loss, self._sum = total - self._sum, total
        self.clock.tick()


def main():
    """Writes the times of updates."""
    job = read_job()
    tf.config.threading.set_intra_op_parallelism_threads(job["threads"])
    tf.config.threading.set_inter_op_parallelism_threads(job["threads"])
    keras.utils.set_random_seed(1)
    if job.get("compute_type") == "bfloat16":
        keras.config.set_dtype_policy("mixed_bfloat16")
    timed = _Timed(Clock(job))
    any_size = tf.TensorSpec([None, None], tf.int32)
    dataset = tf.data.Dataset.from_generator(lambda: _examples(job), output_signature=((any_size, any_size), any_size))
    model = build(job["config"], job["vocab_size"])
    adam = keras.optimizers.Adam(1e-3, beta_1=0.9, beta_2=0.98, epsilon=1e-9)
    model.compile(optimizer=adam, loss=loss_of, jit_compile=False)
    updates = job["warm"] + job["steps"]
    model.fit(dataset.prefetch(tf.data.AUTOTUNE), steps_per_epoch=updates, verbose=0, callbacks=[timed])
    write_result(job, **timed.clock.figures(), loss=timed.loss, parameters=model.count_params(),
                 versions=versions("keras-hub", "keras", "tensorflow-cpu", "numpy"))  # fmt: skip


def _examples(job):
    for inputs, targets in batches(job["batches"]):
        shifted = np.pad(targets[:, :-1], ((0, 0), (1, 0)), constant_values=PAD)
        yield (inputs, shifted), targets


if __name__ == "__main__":
    main()
