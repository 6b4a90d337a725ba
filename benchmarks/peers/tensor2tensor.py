"""Trains Tensor2Tensor's Transformer on TensorFlow 2.13, as a TensorFlow 1 graph.

Settings of its README: the set `transformer_base` with other sizes, batches by padded tokens, one thread per core.
Its own optimizer needs a part of TensorFlow that was removed; TensorFlow's Adam replaces it.
"""

import os

os.environ["TF_USE_LEGACY_KERAS"] = "1"

import numpy as np
import tensorflow.compat.v1 as tf

from benchmarks.harness.child import Clock, read_job, versions, write_result
from benchmarks.peers._absent import stand_in_for
from benchmarks.peers._batches import batches

ABSENT = (
    "PIL", "atari_py", "bz2file", "cv2", "dopamine", "flask", "gevent", "gin", "googleapiclient", "gunicorn", "gym",
    "kfac", "librosa", "matplotlib", "mesh_tensorflow", "oauth2client", "pandas", "png", "pypng", "tensorflow_addons",
    "tensorflow_datasets", "tensorflow_gan", "tensorflow_hub", "tf_slim", "trax",
)  # fmt: skip
"""Packages that it imports but does not use here."""


def build_loss(config, vocab_size, inputs, targets):
    """Returns the training loss of placeholders `inputs` (B, S, 1, 1) and `targets` (B, T, 1, 1), B rows of a batch."""
    from tensor2tensor.data_generators import problem_hparams  # after its absent imports have stubs
    from tensor2tensor.models import transformer

    hparams = transformer.transformer_base()
    hparams.hidden_size, hparams.filter_size = config["width"], config["inner"]
    hparams.num_heads, hparams.num_hidden_layers = config["heads"], config["layers"]
    hparams.layer_prepostprocess_dropout = config["dropout"]
    hparams.attention_dropout = hparams.relu_dropout = 0.0
    hparams.mode = tf.estimator.ModeKeys.TRAIN
    problem = problem_hparams.test_problem_hparams(vocab_size, vocab_size, hparams)
    model = transformer.Transformer(hparams, hparams.mode, problem)
    _, losses = model({"inputs": inputs, "targets": targets, "target_space_id": tf.constant(0)})
    return losses["training"]


def main():
    """Writes the times of updates."""
    job = read_job()
    stand_in_for(*ABSENT)
    tf.disable_v2_behavior()
    tf.logging.set_verbosity(tf.logging.ERROR)
    tf.set_random_seed(1)
    clock, loss = Clock(job), None
    inputs, targets = (tf.placeholder(tf.int32, [None, None, 1, 1]) for _ in range(2))
    rate = tf.placeholder(tf.float32, [])
    loss_of_batch = build_loss(job["config"], job["vocab_size"], inputs, targets)
    update = tf.train.AdamOptimizer(rate, 0.9, 0.98, 1e-9).minimize(loss_of_batch)
    threads = tf.ConfigProto(intra_op_parallelism_threads=job["threads"], inter_op_parallelism_threads=job["threads"])
    with tf.Session(config=threads) as session:
        session.run(tf.global_variables_initializer())
        for number, (source, target) in enumerate(batches(job["batches"]), start=1):
            fed = {inputs: source[:, :, None, None], targets: target[:, :, None, None]}
            fed[rate] = 2e-3 * min(number / 100, (100 / number) ** 0.5)
            loss = float(session.run([loss_of_batch, update], fed)[0])
            clock.tick()
            if clock.done:
                break
    count = sum(int(np.prod(weight.shape.as_list())) for weight in tf.trainable_variables())
    write_result(job, **clock.figures(), loss=loss, parameters=count,
                 versions=versions("tensor2tensor", "tensorflow-cpu", "numpy"))  # fmt: skip


if __name__ == "__main__":
    main()
