"""Checks that the tests of all sequence models share: logits, dropout, derivatives, decoding steps of beams.

Legend: N rows decoded together, T target length, V vocabulary.
"""

import keras
import numpy as np
import tensorflow as tf

from tests.builders import batch, numpy, padded, rows, total_loss, weights_of

TOLERANCE = {"float32": {"rtol": 1e-4, "atol": 1e-5}, "mixed_bfloat16": {"rtol": 0.05, "atol": 0.15}}


def sentences(features):
    """Yields source (None without inputs) and target of each row as lists without padding."""
    for row, target in enumerate(features["targets"]):
        source = features["inputs"][row] if "inputs" in features else None
        yield None if source is None else source[source != 0].tolist(), target[target != 0].tolist()


def check_logits(model, reference, sources, targets, width, atol=1e-4):
    """Checks that the logits at unpadded positions equal a reference model's, in a batch padded to `width`."""
    features = batch(sources=sources, targets=targets, widths=(width, 8))
    check_same_logits(model, reference, features if model.spec.inputs else {"targets": features["targets"]}, atol=atol)


def check_same_logits(model, reference, features, rtol=1e-3, atol=1e-4):
    """Checks that the logits at unpadded positions equal a reference model's."""
    found = numpy(model(features))
    for row, (source, target) in enumerate(sentences(features)):
        expected = reference.logits(source, target)
        assert expected.std() > 0.01
        np.testing.assert_allclose(found[row, : len(target)], expected, rtol=rtol, atol=atol)


def check_dropout_follows_its_seed(model):
    """Checks that the loss is a function of the seed."""
    features = batch(sources=(3, 2), targets=(2, 3))
    features = features if model.spec.inputs else {"targets": features["targets"]}
    losses = [total_loss(model, features, seed)[0] for seed in map(dropout_seed, (2, 2, 3))]
    assert losses[0] == losses[1] != losses[2]


def dropout_seed(number):
    """Returns a seed tensor like that of the training step."""
    return keras.ops.convert_to_tensor(np.array((1, number), np.int64))


def loss_of_reference(build, features):
    """Returns the function weights -> summed cross-entropy of a reference model with `logits(source, target)`."""

    def loss(weights):
        reference, total = build(weights), 0.0
        for source, target in sentences(features):
            logits = reference.logits(source, target)
            total += sum(np.log(np.exp(row).sum()) - row[i] for row, i in zip(logits, target, strict=True))
        return total

    return loss


def directional_derivatives(model, features, reference_loss):
    """Yields for every weight its path and the loss derivatives of model and reference in a random direction."""

    with tf.GradientTape() as tape:
        loss, _ = model.loss_sum(model.body(features), features["targets"])
    gradients = tape.gradient(loss, [v.value for v in model.trainable_variables])
    weights = {path: value.astype(np.float64) for path, value in weights_of(model).items()}
    rng = np.random.default_rng(0)
    for variable, gradient in zip(model.trainable_variables, gradients, strict=True):
        path, gradient = variable.path.partition("/")[2], np.asarray(tf.convert_to_tensor(gradient))
        along = rng.normal(size=gradient.shape)
        up, down = (reference_loss({**weights, path: weights[path] + e * along}) for e in (1e-7, -1e-7))
        yield path, (gradient * along).sum(), (up - down) / 2e-7


def stepwise(model, features, targets_NT, length=None):
    """Returns logits (N, T, V) of decoding steps that are given the targets; `length` is that of the cache."""
    encoded = model.encode(features)
    cache = model.init_cache(encoded, len(targets_NT), length)
    found, last_N = [], np.zeros(len(targets_NT), np.int32)
    for position in range(targets_NT.shape[1]):
        logits_NV, cache = model.decode_step(last_N, position, cache, encoded)
        found.append(numpy(logits_NV))
        last_N = targets_NT[:, position]
    return np.stack(found, axis=1)


def check_steps_of_beams(model, dtype, sources=(5, 1, 7), beams=2, length=5, compiled=True):
    """Checks that decoding steps of several beams per sentence equal teacher forcing.

    If `compiled`, they are computed in a graph of unknown sizes, whose compilation takes longer than a few steps.
    """
    features = batch(sources=sources, targets=(5,) * len(sources))
    targets_NT = padded(rows(np.random.default_rng(3), [length] * len(sources) * beams))
    full_NTV = numpy(model({"inputs": np.repeat(features["inputs"], beams, axis=0), "targets": targets_NT}))
    encoded = model.encode({"inputs": features["inputs"]})
    last = tf.zeros_like(targets_NT[:, 0])
    cache = model.init_cache(encoded, len(targets_NT), None, beams)
    prepared = model.prepare_decode(encoded)
    given = (last, tf.constant(0), cache, prepared)
    specs = tf.nest.map_structure(_of_unknown_sizes, given)
    step = tf.function(model.decode_step).get_concrete_function(*specs) if compiled else model.decode_step
    found = []
    for position in range(length):
        logits, after = step(last, tf.constant(position), cache, prepared)
        tf.nest.map_structure(lambda spec, new: spec.shape.assert_is_compatible_with(new.shape), specs[2], after)
        assert [x.dtype for x in tf.nest.flatten(after)] == [x.dtype for x in tf.nest.flatten(cache)]
        cache, last = after, targets_NT[:, position]
        found.append(numpy(logits))
    np.testing.assert_allclose(np.stack(found, axis=1), full_NTV, **TOLERANCE[dtype])


def _of_unknown_sizes(tensor):
    """Returns a tensor spec with any number of rows; an axis of size 0 may grow."""
    if tensor is None:
        return None
    sizes = [None if axis == 0 or size == 0 else size for axis, size in enumerate(tensor.shape)]
    return tf.TensorSpec(sizes, tensor.dtype)
