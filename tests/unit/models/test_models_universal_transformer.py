"""The Universal Transformer against one in numpy (tests/reference/universal_transformer.py), by hand, and in decoding.

Legend: B batch, S source length, T target length, D width.
"""

import numpy as np
import pytest
import tensorflow as tf

from t2t.errors import UserError
from t2t.hparams.universal_transformer import (
    UniversalTransformerHParams,
    adaptive_universal_transformer_base,
    adaptive_universal_transformer_tiny,
    universal_transformer_base,
    universal_transformer_tiny,
)
from t2t.inference.ctranslate2.conversion import model_complaints
from t2t.layers.costs import Costed, gathered_costs
from t2t.layers.depth_recurrence import Halting, Recurrence
from t2t.models.universal_transformer import UniversalTransformer
from tests.builders import batch, numpy, randomise, tokens_spec, weights_of
from tests.models import (
    check_dropout_follows_its_seed,
    check_logits,
    check_steps_of_beams,
    directional_derivatives,
    dropout_seed,
    loss_of_reference,
)
from tests.reference.transformer import Architecture
from tests.reference.universal_transformer import Act
from tests.reference.universal_transformer import UniversalTransformer as Reference

SOURCES, TARGETS = (5, 1, 7), (4, 6, 2)
ACT = {"recurrence_type": "act", "act_max_steps": 4, "act_epsilon": 0.05, "act_loss_weight": 0.5}
KINDS = {
    "basic": {"num_rec_steps": 3},
    "norms in front": {"num_rec_steps": 3, "norm_position": "pre"},
    "adaptive": ACT,
    "adaptive, norms in front": {**ACT, "norm_position": "pre"},
}


def tiny(kind="basic", dtype="float32", **changes):
    """A model of 8 channels without dropout, its weights random."""
    common = {
        "hidden_size": 8,
        "filter_size": 12,
        "num_heads": 2,
        "max_length": 32,
        "layer_prepostprocess_dropout": 0.0,
    }
    hparams = UniversalTransformerHParams(**{**common, **KINDS[kind], **changes})
    return randomise(UniversalTransformer(hparams, tokens_spec(), dtype=dtype))


def reference_of(kind, weights):
    changes = KINDS[kind]
    shape = Architecture(heads=2, encoder_layers=1, decoder_layers=1, norm=changes.get("norm_position", "post"))
    act = Act(changes["act_epsilon"]) if "act_epsilon" in changes else None
    return Reference(weights, shape, changes.get("num_rec_steps") or changes["act_max_steps"], act)


@pytest.mark.parametrize("kind", KINDS)
def test_logits_are_those_of_an_independent_model_whatever_the_padding(kind):
    model = tiny(kind)
    check_logits(model, reference_of(kind, weights_of(model)), SOURCES, TARGETS, 11)


def test_positions_halt_after_different_numbers_of_steps_and_pay_for_them():
    """The cost is tau times N + R of every position of source and target; padding pays nothing."""
    model = tiny("adaptive")
    features = batch(sources=SOURCES, targets=TARGETS, widths=(11, 8))
    reference, found = reference_of("adaptive", weights_of(model)), []
    for inputs, targets in zip(features["inputs"], features["targets"], strict=True):
        before = reference.act.ponder
        reference.logits(inputs[inputs != 0].tolist(), targets[targets != 0].tolist())
        found.append(reference.act.ponder - before)
    means = [ponder / (s + t) for ponder, s, t in zip(found, SOURCES, TARGETS, strict=True)]
    assert max(means) - min(means) > 0.05
    body = model.body(features)
    assert isinstance(body, Costed)
    np.testing.assert_allclose(float(body.cost), 0.5 * sum(found), rtol=1e-4)
    assert not isinstance(tiny().body(features), Costed)


class Counting:
    """Replaces `Run`: no timing signals, and a layer that adds 1."""

    def add_signals(self, step, x):
        return x

    def advance(self, step, x):
        return x + 1.0


@pytest.mark.parametrize(
    ("h", "steps", "output", "ponder"),
    [
        (0.4, 8, 0.4 * 1 + 0.4 * 2 + 0.2 * 3, 3 + 0.2),
        (0.4, 2, 0.4 * 1 + 0.6 * 2, 2 + 0.6),
        (0.995, 8, 1.0, 1 + 1.0),
    ],
    ids=["halts in the third step", "halts in the last step", "halts at once"],
)
def test_halting_by_hand(h, steps, output, ponder):
    """A state that begins with 0 and grows by 1 in each step, and one probability h throughout."""
    layer = Halting(steps, 0.01, float(np.log(h / (1 - h))), 0.5, name="halting")
    layer.build((None, None, 3))
    layer.unit.kernel.assign(np.zeros((3, 1)))
    x, keep = np.zeros((2, 2, 3), np.float32), np.array([[True, True], [True, False]])
    with gathered_costs() as costs:
        found = numpy(layer(x, keep, run=Counting()))
    np.testing.assert_allclose(found[keep], output, rtol=1e-5)
    np.testing.assert_allclose(float(sum(costs.summed)), 0.5 * 3 * ponder, rtol=1e-5)


def test_halting_probabilities_have_the_gradient_of_the_cost():
    """N is a constant and R = 1 - h_1 - h_2: by h the cost has the derivative -2 tau, and h by the bias h (1 - h)."""
    layer = Halting(8, 0.01, float(np.log(0.4 / 0.6)), 0.5, name="halting")
    layer.build((None, None, 3))
    layer.unit.kernel.assign(np.zeros((3, 1)))
    with tf.GradientTape() as tape, gathered_costs() as costs:
        layer(np.zeros((1, 1, 3), np.float32), run=Counting())
    gradient = tape.gradient(costs.summed[0], layer.unit.bias.value)
    np.testing.assert_allclose(gradient, [-2 * 0.5 * 0.4 * 0.6], rtol=1e-4)


def test_each_step_has_dropout_masks_of_its_own():
    recurrence, seen = Recurrence(3, "interleaved", None, name="recurrence"), []
    recurrence.build((None, None, 4))

    def transform(x, seed):
        seen.append(tuple(np.asarray(seed).tolist()))
        return x

    recurrence(np.zeros((1, 2, 4), np.float32), transform=transform, seed=dropout_seed(2))
    assert len(set(seen)) == 3
    check_dropout_follows_its_seed(tiny(layer_prepostprocess_dropout=0.5))


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["basic", "adaptive"])
def test_gradients_are_those_of_finite_differences_of_the_independent_model(kind):
    model = tiny(kind, label_smoothing=0.0, **({"act_loss_weight": 0.0} if kind == "adaptive" else {}))
    features = batch(sources=(4, 3), targets=(3, 5), widths=(6, 6))
    loss = loss_of_reference(lambda weights: reference_of(kind, weights), features)
    for path, found, expected in directional_derivatives(model, features, loss):
        np.testing.assert_allclose(found, expected, rtol=5e-3, atol=5e-3, err_msg=path)


@pytest.mark.parametrize("kind", ["basic", "adaptive"])
def test_steps_of_several_beams_are_teacher_forcing(kind):
    check_steps_of_beams(tiny(kind), "float32")


def test_steps_are_teacher_forcing_in_half_precision():
    check_steps_of_beams(tiny(dtype="mixed_bfloat16"), "mixed_bfloat16")


@pytest.mark.parametrize("positions", ["rotary", "none"])
def test_the_layout_of_sinusoids_counts_with_any_positions_since_steps_have_them(positions):
    changed = universal_transformer_tiny().replace(sinusoid_layout="split").override(f"positions={positions}")
    assert changed.sinusoid_layout == "split"
    changed.freeze()
    features = batch(sources=SOURCES, targets=TARGETS)
    paper, split = (
        numpy(tiny(positions=positions, sinusoid_layout=layout)(features)) for layout in ("interleaved", "split")
    )
    assert np.abs(paper - split).max() > 1e-3


def test_each_step_of_the_recurrence_keeps_keys_and_values():
    model = tiny("adaptive")
    cache = model.init_cache(model.encode({"inputs": batch()["inputs"]}), 3, 5)
    step = "universaltransformer/decoder/layer_0/self_attention"
    parent, _, name = step.rpartition("/")
    found = {path.replace("/self_attention/self_attention", "/self_attention") for path in cache.keys_values}
    assert len(cache.keys_values) == 4
    assert {path.rpartition("/")[0].rpartition("/")[2] for path in found} == {f"step_{i}" for i in range(4)}
    assert all(path.startswith(parent) and path.endswith(name) for path in cache.keys_values)


def test_ctranslate2_is_refused():
    (text,) = model_complaints(tiny())
    assert text.startswith(
        "it is a UniversalTransformer, its inputs are tokens, its targets tokens; a Transformer from"
    )


def test_sets_of_tensor2tensor():
    base, tiny_set = universal_transformer_base().freeze(), universal_transformer_tiny().freeze()
    assert (base.hidden_size, base.filter_size, base.num_heads, base.recurrence_steps) == (1024, 4096, 16, 6)
    assert (tiny_set.hidden_size, tiny_set.recurrence_steps) == (128, 8)
    assert adaptive_universal_transformer_base().freeze().recurrence_steps == 12
    assert adaptive_universal_transformer_tiny().freeze().recurrence_steps == 4


def test_paths_of_weights_are_a_format_and_stay():
    found = {path for path in weights_of(tiny("adaptive")) if "layer_0" not in path}
    halting = {
        f"{stack}/recurrence/halting/unit/{name}" for stack in ("encoder", "decoder") for name in ("kernel", "bias")
    }
    assert found == {"target_embedding/table", *halting}
    assert {path.split("/")[1] for path in weights_of(tiny())} == {"table", "layer_0"}


@pytest.mark.parametrize(
    ("changes", "text"),
    [
        ({"num_decoder_layers": 3}, "hparam num_decoder_layers=3: each stack of a Universal Transformer is one layer"),
        ({"positions": "none", "hidden_size": 7, "num_heads": 1}, "hidden_size=7 is odd; the vectors of steps need"),
        ({"act_max_steps": 3}, "hparam act_max_steps=3: nothing reads it while recurrence_type=basic"),
    ],
)
def test_what_cannot_be_built_is_refused(changes, text):
    with pytest.raises(UserError, match=text):
        universal_transformer_tiny().replace(**changes).freeze()
