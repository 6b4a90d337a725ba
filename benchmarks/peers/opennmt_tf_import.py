"""Makes a small OpenNMT-tf 2 model with random weights, saves it in OpenNMT-tf's format, and writes its outputs."""

import pathlib

import opennmt
import tensorflow as tf

from benchmarks.harness.child import read_job
from benchmarks.peers._token_answers import tokens_of, write_answers

SPECIAL = ["<blank>", "<s>", "</s>"]
START, END = 1, 2
_DESCRIPTION = """import opennmt
import tensorflow as tf


def model():
    return opennmt.models.Transformer({})
"""


def main():
    """Saves the model and writes its outputs."""
    job = read_job()
    tf.config.threading.set_intra_op_parallelism_threads(job["threads"])
    tf.random.set_seed(job["seed"])
    folder = pathlib.Path(job["folder"])
    tokens = [tokens_of(job[name], SPECIAL) for name in ("sources", "targets")]
    for name, words in zip(("src.vocab", "tgt.vocab"), tokens):  # noqa: B905  Python 3.9
        (folder / name).write_text("".join(f"{word}\n" for word in words), encoding="utf-8")
    (folder / "data.yml").write_text("data:\n  source_vocabulary: src.vocab\n  target_vocabulary: tgt.vocab\n")
    sizes = {"num_layers": job["layers"], "num_units": job["width"], "num_heads": job["heads"],
             "ffn_inner_dim": job["ffn_dim"]}  # fmt: skip
    given = ", ".join(f"{name}={value}" for name, value in {**sizes, **job["network"]}.items())
    (folder / "model_description.py").write_text(_DESCRIPTION.format(given))
    model = opennmt.config.load_model(str(folder))
    files = {"source_vocabulary": str(folder / "src.vocab"), "target_vocabulary": str(folder / "tgt.vocab")}
    model.initialize(files)
    model.create_variables()
    for weight in model.trainable_weights:
        mean = 1.0 if "gamma" in weight.name else 0.0
        weight.assign(tf.random.normal(weight.shape, mean, job["deviation"]))
    opennmt.utils.checkpoint.Checkpoint(model, model_dir=str(folder)).save(3)

    def log_probs(source, target):
        features = {"ids": tf.constant([source]), "length": tf.constant([len(source)])}
        labels = {"ids": tf.constant([target]), "length": tf.constant([len(target)])}
        logits = model(features, labels, training=True, step=0)[0]["logits"]
        return tf.nn.log_softmax(logits[0]).numpy()

    def of_side(words):
        table = {word: number for number, word in enumerate(words)}
        return lambda text: [table.get(word, len(words)) for word in text]

    write_answers(job, [of_side(words) for words in tokens], (START, END, len(tokens[1])), log_probs)


if __name__ == "__main__":
    main()
