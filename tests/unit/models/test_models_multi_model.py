"""The MultiModel against one in numpy (tests/reference/multi_model.py), in decoding, and of several problems.

Legend: B batch, S source length, T target length, D width.
"""

import dataclasses

import numpy as np
import pytest

from t2t.errors import UserError
from t2t.hparams.multi_model import MultiModelHParams, multi_model, multi_model_8, multi_model_tiny
from t2t.models.multi_model import MultiModel
from t2t.specs.features import FeatureKind, FeatureSpec, ProblemSpec
from tests.builders import batch, numpy, randomise, tokens_spec, weights_of
from tests.models import (
    check_dropout_follows_its_seed,
    check_logits,
    check_steps_of_beams,
    directional_derivatives,
    loss_of_reference,
)
from tests.reference.multi_model import MultiModel as Reference

SOURCES, TARGETS = (5, 1, 7), (4, 6, 2)
STEPS = ((3, 1), (3, 2), (5, 1), (3, 4))
CLASSES = ProblemSpec(
    name="classes",
    features={
        "inputs": FeatureSpec(kind=FeatureKind.TOKENS, vocab_size=13),
        "targets": FeatureSpec(kind=FeatureKind.LABEL, vocab_size=7),
    },
)


def tiny(spec=None, dtype="float32", **changes):
    """A model of 2 and 1 blocks of 12 channels without dropout, its weights random."""
    sizes, dilations = zip(*STEPS, strict=True)
    common = {
        "hidden_size": 12, "num_hidden_layers": 2, "num_decoder_layers": 1, "dropout": 0.0, "num_heads": 3,
        "num_experts": 4, "filter_size": 8, "kernel_sizes": sizes, "dilations": dilations,
    }  # fmt: skip
    return randomise(MultiModel(MultiModelHParams(**common | changes), spec or tokens_spec(), dtype=dtype))


def reference_of(weights, encoder=2):
    return Reference(weights, encoder, 1, STEPS, heads=3, chosen=2)


def test_logits_are_those_of_an_independent_model_whatever_the_padding():
    model = tiny()
    check_logits(model, reference_of(weights_of(model)), SOURCES, TARGETS, 11)


def test_classes_are_those_of_an_independent_model():
    model = tiny(CLASSES)
    inputs = batch(sources=SOURCES, widths=(11, 8))["inputs"]
    reference, found = reference_of(weights_of(model)), numpy(model({"inputs": inputs}))
    expected = [reference.class_logits(row[row != 0].tolist()) for row in inputs]
    np.testing.assert_allclose(found, expected, rtol=1e-3, atol=1e-4)


@pytest.mark.exhaustive
def test_gradients_are_those_of_finite_differences_of_the_independent_model():
    """Without the cost of uneven use, and except for the noise of the gates, which is not there."""
    model = tiny(label_smoothing=0.0, num_hidden_layers=1, expert_balance=0.0)
    features = batch(sources=(4, 3), targets=(3, 5), widths=(6, 6))
    loss = loss_of_reference(lambda weights: reference_of(weights, encoder=1), features)
    for path, found, expected in directional_derivatives(model, features, loss):
        np.testing.assert_allclose(found, expected, rtol=5e-3, atol=5e-3, err_msg=path)


@pytest.mark.parametrize("dtype", ["float32", "mixed_bfloat16"])
@pytest.mark.exhaustive
def test_steps_of_several_beams_are_teacher_forcing(dtype):
    check_steps_of_beams(tiny(dtype=dtype, num_hidden_layers=1, num_experts=3), dtype)


def test_dropout_is_a_function_of_its_seed():
    check_dropout_follows_its_seed(tiny(dropout=0.5))


def test_answers_begin_from_the_command_of_the_problem():
    model = tiny()
    features = batch(targets=(4, 4, 4))
    before = numpy(model(features))
    model.command.vector.assign(-np.asarray(model.command.vector))
    assert (np.abs(numpy(model(features)) - before) > 1e-3).any(axis=-1).all()


def test_one_body_of_words_and_classes():
    """Each problem has separate modalities and a command id; classes are predicted as by a model of classes alone."""
    words = dataclasses.replace(tokens_spec(), name="words")
    both = tiny(ProblemSpec(name="words-classes", members=(words, CLASSES)))
    writer, teller = both.for_problem("words"), both.for_problem("classes")
    assert (writer.autoregressive, teller.autoregressive) == (True, False)
    inputs = batch(sources=SOURCES)["inputs"]
    weights = weights_of(both)
    for view, name in ((writer, "words"), (teller, "classes")):
        own = {path.removeprefix(f"{name}/"): value for path, value in weights.items()}
        alone = tiny(view.spec)
        for variable in alone.variables:
            variable.assign(own[variable.path.partition("/")[2]])
        features = batch(sources=SOURCES) if name == "words" else {"inputs": inputs}
        np.testing.assert_allclose(numpy(view(features)), numpy(alone(features)), rtol=1e-5, atol=1e-6)


def test_published_sizes():
    model = multi_model().freeze()
    assert (model.num_hidden_layers, model.num_decoder_layers, model.dropout, model.num_heads) == (6, 4, 0.4, 8)
    assert (model.kernel_sizes, model.dilations) == ((3, 3, 15, 15), (1, 1, 1, 8))
    assert (model.num_experts, model.experts_per_token) == (60, 4)
    assert multi_model_8().freeze().num_experts == 240


def test_paths_of_weights_are_a_format_and_stay():
    model = tiny(num_hidden_layers=1)
    step = ("convolution/windows/kernel", "convolution/channels/kernel", "norm/gamma", "norm/beta")
    blocks = ("encoder_0", "mixer/block_0", "mixer/block_1", "decoder_0/block")
    steps = [f"{block}/step_{i}" for block in blocks for i in range(1, 5)]
    attentions = [f"{part}/attention" for part in ("mixer", "decoder_0")]
    steps += [f"{attention}/step_{i}" for attention in attentions for i in (1, 2)]
    kernels = ("project/query_kernel", "project/key_kernel", "project/value_kernel", "output/kernel")
    experts = ("gate/gate_kernel", "gate/noise_kernel", "inner", "outer", "inner_bias", "outer_bias")
    paths = [
        "target_embedding/table", "command/vector",
        *(f"{place}/{name}" for place in steps for name in step),
        *(f"{a}/{kind}_attention/{name}" for a in attentions for kind in ("self", "source") for name in kernels),
        *(f"{side}_experts/experts/{name}" for side in ("encoder", "decoder") for name in experts),
        *(f"{side}_experts/residual/norm/{name}" for side in ("encoder", "decoder") for name in ("gamma", "beta")),
    ]  # fmt: skip
    assert sorted(weights_of(model)) == sorted(paths)


@pytest.mark.parametrize(
    ("changes", "text"),
    [
        ({"kernel_sizes": (3, 7)}, r"hparam kernel_sizes=\(3, 7\): a block has four steps; give four numbers, each 1"),
        ({"hidden_size": 66}, "hparam hidden_size=66: give an even multiple of num_heads=4"),
        ({"experts_per_token": 4}, "hparam experts_per_token=4: there are num_experts=4; it must be smaller"),
    ],
)
def test_what_cannot_be_built_is_refused(changes, text):
    with pytest.raises(UserError, match=text):
        multi_model_tiny().replace(**changes).freeze()
