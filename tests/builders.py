"""Small building blocks of tests: specs, models, weights, batches.

Legend: B batch, S source length, T target length, V vocabulary.
"""

import contextlib
import math

import keras
import numpy as np

from t2t.hparams.transformer import TransformerHParams
from t2t.models.transformer import Transformer
from t2t.specs.features import FeatureKind, FeatureSpec, ProblemSpec
from tests.sealed_files import edited as edited

VOCABULARY = 13


def tokens_spec(inputs=VOCABULARY, targets=VOCABULARY, shared=True, tells_words=False):
    """Returns the spec of a problem with tokens; `inputs=0` for one without inputs.

    With `tells_words`, every third token does not start a word, nor do padding and end of sequence.
    """
    sizes = {"inputs": inputs, "targets": targets} if inputs else {"targets": targets}
    starts = {size: ("00" + "110" * size)[: size * tells_words] for size in sizes.values()}
    features = {
        name: FeatureSpec(kind=FeatureKind.TOKENS, vocab_size=size, word_starts=starts[size])
        for name, size in sizes.items()
    }
    return ProblemSpec(name="tokens", features=features, shared_vocabulary=shared and bool(inputs))


def tiny_hparams(**changes):
    """Returns hparams of a Transformer with two layers, d 8 and two heads, without dropout."""
    small = {"hidden_size": 8, "filter_size": 12, "num_heads": 2, "num_hidden_layers": 2, "max_length": 32}
    return TransformerHParams(**{**small, "layer_prepostprocess_dropout": 0.0, **changes})


def tiny_transformer(spec=None, dtype="float32", seed=1, **changes):
    """Returns a Transformer with random weights, including norms and biases."""
    hparams = tiny_hparams(**changes)
    model = Transformer(hparams, spec or tokens_spec(tells_words=hparams.positions == "words"), dtype=dtype)
    return randomise(model, seed)


def randomise(model, seed=1):
    """Sets all weights to random values of about the size of trained ones."""
    rng = np.random.default_rng(seed)
    for variable in model.variables:
        inputs = variable.shape[0] if len(variable.shape) < 4 else math.prod(variable.shape[:-1])
        scale = 1.0 if len(variable.shape) == 1 else inputs**-0.5
        values = rng.normal(0.0, scale, variable.shape) + ("gamma" in variable.path)
        variable.assign(0.5 + np.abs(values) if "variance" in variable.path else values)
    return model


@contextlib.contextmanager
def shapes_alone():
    """Context in which created weights have shapes but no values, which would take seconds and gigabytes for big sets.

    Clears Keras's list of these weights, or it would initialize them at the end of the next such scope.
    """
    with keras.StatelessScope(initialize_variables=False):
        yield
    keras.utils.clear_session(free_memory=False)  # garbage collection takes longer than most models


def weights_of(model):
    """Returns weights by path without the model's name."""
    return {v.path.partition("/")[2]: np.asarray(v) for v in model.variables}


def rows(rng, lengths, vocab_size=VOCABULARY):
    """Returns random sequences of ids >= 2 that end with 1, as lists; `lengths` include the end."""
    return [[*rng.integers(2, vocab_size, length - 1).tolist(), 1] for length in lengths]


def padded(sequences, width=0):
    """Returns sequences padded with 0, (B, width) int32; at least as wide as the longest."""
    width = max(width, *map(len, sequences))
    return np.array([[*row, *[0] * (width - len(row))] for row in sequences], np.int32)


def batch(seed=0, sources=(5, 3, 7), targets=(4, 6, 2), vocab_size=VOCABULARY, widths=(0, 0)):
    """Returns features of random pairs with given lengths, padded at least to `widths`."""
    rng = np.random.default_rng(seed)
    return {
        "inputs": padded(rows(rng, sources, vocab_size), widths[0]),
        "targets": padded(rows(rng, targets, vocab_size), widths[1]),
    }


def random_pairs(sources, targets, seed=11):
    """Returns random pairs of sequences of given lengths, as lists."""
    rng = np.random.default_rng(seed)
    return list(zip(rows(rng, sources), rows(rng, targets), strict=True))


def batch_of(pairs):
    """Returns the features of pairs of sequences, padded."""
    sources, targets = zip(*pairs, strict=True)
    return {"inputs": padded(sources), "targets": padded(targets)}


def total_loss(model, features, seed=None):
    """Returns (loss sum, tokens) as floats."""
    loss_sum, tokens = model.loss_sum(model.body(features, seed=seed), features["targets"])
    return float(loss_sum), float(tokens)


def seed(*words):
    """Returns a seed tensor with the dtype that the engine's training step uses."""
    return keras.ops.convert_to_tensor(np.array(words, "uint32" if keras.backend.backend() == "jax" else "int64"))


def copies(variable):
    """Returns the value of a Keras or TensorFlow variable on each device of this process."""
    value = variable.value if isinstance(variable, keras.Variable) else variable
    if keras.backend.backend() == "jax":
        return [np.asarray(shard.data) for shard in value.addressable_shards]
    return [copy.numpy() for copy in value.distribute_strategy.experimental_local_results(value)]


def numpy(x):
    """Returns a tensor as a float64 array."""
    return keras.ops.convert_to_numpy(keras.ops.cast(x, "float32")).astype(np.float64)


def largest_within(graph):
    """Returns the number of elements of the largest tensor in a graph, including its functions, e.g. loop bodies."""
    names = [function.signature.name for function in graph.as_graph_def().library.function]
    graphs = [graph, *(graph._get_function(name).graph for name in names)]
    return max(t.shape.num_elements() or 0 for g in graphs for op in g.get_operations() for t in op.outputs)
