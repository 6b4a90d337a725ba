"""The Universal Transformer: halting against its reference and by hand, the vectors of steps, caches.

Legend: B batch, S source length, T target length, D width.
"""

import numpy as np
import pytest
import tensorflow as tf

from t2t.hparams.universal_transformer import universal_transformer_tiny
from t2t.layers.costs import Costed, gathered_costs
from t2t.layers.depth_recurrence import Halting, Recurrence
from tests.builders import batch, numpy, weights_of
from tests.models import dropout_seed
from tests.unit.models.references import reference_of, tiny

SOURCES, TARGETS = (5, 1, 7), (4, 6, 2)
ACT = {"recurrence_type": "act", "act_max_steps": 4, "act_epsilon": 0.05, "act_loss_weight": 0.5}


def test_positions_halt_after_different_numbers_of_steps_and_pay_for_them():
    """The cost is tau times N + R of every position of source and target; padding pays nothing."""
    model = tiny("universal_transformer", **ACT)
    features = batch(sources=SOURCES, targets=TARGETS, widths=(11, 8))
    reference, found = reference_of(model), []
    for inputs, targets in zip(features["inputs"], features["targets"], strict=True):
        before = reference.act.ponder
        reference.logits(inputs[inputs != 0].tolist(), targets[targets != 0].tolist())
        found.append(reference.act.ponder - before)
    means = [ponder / (s + t) for ponder, s, t in zip(found, SOURCES, TARGETS, strict=True)]
    assert max(means) - min(means) > 0.05
    body = model.body(features)
    assert isinstance(body, Costed)
    np.testing.assert_allclose(float(body.cost), 0.5 * sum(found), rtol=1e-4)
    assert not isinstance(tiny("universal_transformer").body(features), Costed)


class Counting:
    """Replaces `Run`: no timing signals, and a layer that adds 1."""

    def add_signals(self, step, x):
        return x

    def advance(self, step, x):
        return x + 1.0


@pytest.mark.parametrize(
    ("h", "steps", "output", "ponder"),
    [(0.4, 8, 0.4 * 1 + 0.4 * 2 + 0.2 * 3, 3 + 0.2), (0.4, 2, 0.4 * 1 + 0.6 * 2, 2 + 0.6), (0.995, 8, 1.0, 1 + 1.0)],
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


@pytest.mark.parametrize("positions", ["rotary", "none"])
def test_the_layout_of_sinusoids_counts_with_any_positions_since_steps_have_them(positions):
    changed = universal_transformer_tiny().replace(sinusoid_layout="split").override(f"positions={positions}")
    assert changed.sinusoid_layout == "split"
    changed.freeze()
    features = batch(sources=SOURCES, targets=TARGETS)
    paper, split = (
        numpy(tiny("universal_transformer", positions=positions, sinusoid_layout=layout)(features))
        for layout in ("interleaved", "split")
    )
    assert np.abs(paper - split).max() > 1e-3


def test_each_step_of_the_recurrence_keeps_keys_and_values():
    model = tiny("universal_transformer", **ACT)
    cache = model.init_cache(model.encode({"inputs": batch()["inputs"]}), 3, 5)
    step = "universaltransformer/decoder/layer_0/self_attention"
    parent, _, name = step.rpartition("/")
    found = {path.replace("/self_attention/self_attention", "/self_attention") for path in cache.keys_values}
    assert len(cache.keys_values) == 4
    assert {path.rpartition("/")[0].rpartition("/")[2] for path in found} == {f"step_{i}" for i in range(4)}
    assert all(path.startswith(parent) and path.endswith(name) for path in cache.keys_values)


def test_paths_of_weights_are_a_format_and_stay():
    found = {path for path in weights_of(tiny("universal_transformer", **ACT)) if "layer_0" not in path}
    halting = {
        f"{stack}/recurrence/halting/unit/{name}" for stack in ("encoder", "decoder") for name in ("kernel", "bias")
    }
    assert found == {"target_embedding/table", *halting}
    assert {path.split("/")[1] for path in weights_of(tiny("universal_transformer"))} == {"table", "layer_0"}
