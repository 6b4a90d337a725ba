"""Trains OpenNMT-tf's Transformer with its own loss, in one TensorFlow function.

Settings of its documentation (*Training*, *Parameters*): batches by tokens, one function for all shapes, gradients from
the model's own `compute_gradients`, Keras's legacy Adam. Norms precede each sub-layer.

Letters: B rows of a batch, S source length, T target length.
"""

import numpy as np
import opennmt
import tensorflow as tf

from benchmarks.harness.child import Clock, read_job, versions, write_result
from benchmarks.peers._batches import batches

PAD, EOS = 0, 1
THEIR_START, THEIR_END = 1, 2


def build(config, vocabulary):
    """Returns the model; its variables are not created yet.

    Args:
        config: sizes.
        vocabulary: file with its tokens, one fewer than there are ids, since the last id is the unknown token.
    """
    model = opennmt.models.Transformer(
        num_layers=config["layers"], num_units=config["width"], num_heads=config["heads"],
        ffn_inner_dim=config["inner"], dropout=config["dropout"], attention_dropout=0.0, ffn_dropout=0.0,
        share_embeddings=opennmt.models.EmbeddingsSharingLevel.ALL,
    )  # fmt: skip
    model.initialize(
        {"source_vocabulary": vocabulary, "target_vocabulary": vocabulary},
        params={"average_loss_in_time": True, "label_smoothing": 0.1},
    )
    return model


def write_vocabulary(path, size):
    """Writes a vocabulary of `size - 1` tokens: OpenNMT-tf's padding, start and end, then numbered pieces."""
    names = ["<blank>", "<s>", "</s>", *(f"piece{number}" for number in range(3, size - 1))]
    with open(path, "w", encoding="utf-8") as file:
        file.write("\n".join(names) + "\n")


def main():
    """Writes the times of updates."""
    job = read_job()
    tf.random.set_seed(1)
    vocabulary = job["result"] + ".vocabulary"
    write_vocabulary(vocabulary, job["vocab_size"])
    model, clock, loss = build(job["config"], vocabulary), Clock(job), None
    rate = tf.Variable(1e-3)
    optimizer = tf.keras.optimizers.legacy.Adam(rate, beta_1=0.9, beta_2=0.98, epsilon=1e-9)
    model.create_variables(optimizer=optimizer)
    any_size = tf.TensorSpec([None, None], tf.int32)

    @tf.function(input_signature=[any_size, any_size])
    def update(inputs, targets):
        shifted = tf.concat([tf.fill([tf.shape(targets)[0], 1], THEIR_START), targets[:, :-1]], axis=1)
        loss, gradients = model.compute_gradients(
            {"ids": inputs, "length": _lengths(inputs)},
            {"ids": shifted, "ids_out": targets, "length": _lengths(targets)},
            optimizer,
        )
        optimizer.apply_gradients(zip(gradients, model.trainable_weights))  # noqa: B905  Python 3.9
        return loss

    for number, (inputs, targets) in enumerate(batches(job["batches"]), start=1):
        rate.assign(2e-3 * min(number / 100, (100 / number) ** 0.5))
        loss = float(update(_theirs(inputs), _theirs(targets)))
        clock.tick()
        if clock.done:
            break
    count = sum(int(np.prod(weight.shape)) for weight in model.trainable_weights)
    write_result(job, **clock.figures(), loss=loss, parameters=count,
                 versions=versions("OpenNMT-tf", "tensorflow-cpu", "numpy"))  # fmt: skip


def _lengths(ids):
    return tf.math.count_nonzero(ids, axis=1, dtype=tf.int32)


def _theirs(ids):
    """Converts our ids to OpenNMT-tf's int32 ids: end 1 becomes 2; our 2, which is unused, becomes 1, its start."""
    return np.where(ids == EOS, THEIR_END, np.where(ids == THEIR_END, THEIR_START, ids)).astype(np.int32)


if __name__ == "__main__":
    main()
