"""Mixtures of experts against loops over positions: Shazeer et al. 2017.

Legend: B batch, T length, N positions, D width, E experts, K experts of a position, A assignments.
"""

import math
from statistics import NormalDist

import numpy as np
import pytest
import tensorflow as tf

from t2t.layers.feed_forward import BLOCK, Experts, NoisyTopKGate, group_by_expert, squared_variation
from t2t.layers.mode import Costs, in_mode
from t2t.models.classics.lstm_moe import HierarchicalGate
from tests.builders import numpy, randomise

SEED = tf.constant([3, 4], tf.int64)


def a_gate(experts=5, chosen=2, dtype="float32"):
    gate = NoisyTopKGate(experts, chosen, dtype=dtype)
    gate.build((None, 3))
    return randomise(gate)


def positions(count=6, width=3):
    return np.random.default_rng(2).normal(size=(count, width)).astype(np.float32)


def chances(scores, spread):
    """Returns the probability of each expert to be in the top two if only its noise is redrawn (equations 8 and 9)."""
    thresholds = [np.sort(np.delete(scores, expert))[-2] for expert in range(len(scores))]
    return np.array([NormalDist().cdf(z) for z in (scores - thresholds) / spread])


def test_importance_and_load_by_the_formulas():
    """Equations 6 and 8 to 10: sums of weights, and of the chances to be chosen under another draw of one's noise."""
    gate, x = a_gate(), positions()
    keep = np.array([True, True, False, True, True, False])
    gates = gate(x, keep)
    scores, spread = x @ numpy(gate.gate_kernel), np.log1p(np.exp(x @ numpy(gate.noise_kernel))) + 1e-2
    importance, load = np.zeros(5), np.zeros(5)
    for row in np.flatnonzero(keep):
        importance[gates.experts[row]] += gates.weights[row]
        load += chances(scores[row], spread[row])
    np.testing.assert_allclose(gates.importance, importance, rtol=1e-4)
    np.testing.assert_allclose(gates.load, load, rtol=1e-4)


def two_levels(experts=12, dtype="float32"):
    gate = HierarchicalGate(experts, groups=4, chosen=2, dtype=dtype)
    gate.build((None, 3))
    return randomise(gate)


def test_two_levels_by_the_formulas():
    """Equations 12 to 14 of appendix B: 2 of 4 groups, and 2 of the 3 experts of each; position by position."""
    gate, x, keep = two_levels(), positions(9), np.arange(9) % 4 != 3
    gates = gate(x, keep)
    outer, inner = ([x @ numpy(s.gate_kernel), np.log1p(np.exp(x @ numpy(s.noise_kernel))) + 1e-2]
                    for s in (gate.primary, gate.secondary))  # fmt: skip
    importance, outer_load, inner_load, visits = np.zeros((4, 3)), np.zeros(4), np.zeros((4, 3)), np.zeros(4)
    for row in range(9):
        expected, best = {}, np.argsort(-outer[0][row])[:2]
        outer_load += keep[row] * chances(outer[0][row], outer[1][row])
        for group, weight in zip(best, softmax(outer[0][row, best]), strict=True):
            scores, spread = (value[row, 3 * group : 3 * group + 3] for value in inner)
            inside = np.argsort(-scores)[:2]
            expected |= {3 * group + e: weight * w for e, w in zip(inside, softmax(scores[inside]), strict=True)}
            visits[group] += keep[row]
            inner_load[group] += keep[row] * chances(scores, spread)
        found = dict(zip(numpy(gates.experts)[row].astype(int), numpy(gates.weights)[row], strict=True))
        assert found == pytest.approx(expected, rel=1e-5)
        for expert, weight in expected.items():
            importance[divmod(expert, 3)] += keep[row] * weight
    load = outer_load[:, None] * inner_load / np.maximum(visits, 1)[:, None]
    np.testing.assert_allclose(gates.importance, importance.ravel(), rtol=1e-4)
    np.testing.assert_allclose(gates.load, load.ravel(), rtol=1e-4)


def softmax(scores):
    return np.exp(scores) / np.exp(scores).sum()


@pytest.mark.parametrize("build", [lambda: a_gate(experts=32), lambda: two_levels(experts=32)])
def test_noise_comes_with_a_seed_and_is_the_same_under_the_same_one(build):
    gate, x = build(), positions(200)
    keep = np.ones(200, bool)
    first, again, other = (numpy(gate(x, keep, seed=seed).experts) for seed in (SEED, SEED, SEED + 1))
    np.testing.assert_array_equal(first, again)
    assert (first != other).mean() > 0.1
    assert (first != numpy(gate(x, keep).experts)).mean() > 0.1


@pytest.mark.parametrize("build", [a_gate, two_levels])
def test_weights_of_gates_are_not_rounded_to_16_bits(build):
    states, keep = tf.cast(positions(200), "bfloat16"), np.ones(200, bool)
    found, exact = (build(dtype=dtype)(states, keep) for dtype in ("mixed_bfloat16", "float32"))
    np.testing.assert_array_equal(numpy(found.experts), numpy(exact.experts))
    np.testing.assert_allclose(numpy(found.weights), numpy(exact.weights), rtol=1e-6)


def test_a_new_gate_uses_all_experts_alike_under_noise():
    gate = NoisyTopKGate(4, 2)
    gate.build((None, 3))
    gates = gate(positions(4000), np.ones(4000, bool), seed=SEED)
    shares = np.bincount(numpy(gates.experts).astype(int).ravel(), minlength=4) / 8000
    np.testing.assert_allclose(shares, 0.25, atol=0.02)


@pytest.mark.parametrize("chosen_by", ["all", "none but one", "at random"])
def test_blocks_hold_every_assignment_once_with_its_expert(chosen_by):
    rng = np.random.default_rng(0)
    experts = {"all": np.arange(30) % 3, "none but one": np.full(30, 1), "at random": rng.integers(0, 3, 30)}[chosen_by]
    plan = group_by_expert(experts.astype(np.int32), 3, block=4)
    held, places, owners = (np.asarray(x) for x in plan)
    assert len(held) == 4 * len(owners) == 4 * (30 // 4 + 3)
    np.testing.assert_array_equal(held[places], np.arange(30))
    np.testing.assert_array_equal(owners[places // 4], experts)
    assert (held >= 0).sum() == 30


@pytest.mark.parametrize("length", [3, None], ids=["known length", "unknown length"])
def test_few_assignments_need_few_blocks_however_many_experts_there_are(length):
    group = tf.function(lambda x: group_by_expert(x, 512, block=4), [tf.TensorSpec([length], tf.int32)])
    experts = np.array([511, 7, 511], np.int32)
    held, places, owners = (np.asarray(x) for x in group(experts))
    assert len(held) == 4 * len(owners) == 4 * 3
    np.testing.assert_array_equal(held[places], np.arange(3))
    np.testing.assert_array_equal(owners[places // 4], experts)


@pytest.mark.parametrize(
    ("count", "gated", "groups"),
    [(1, False, 0), (BLOCK, False, 0), (3 * BLOCK + 7, False, 0), (BLOCK + 5, True, 0), (BLOCK + 5, False, 3)],
)
def test_each_position_gets_what_its_experts_make_of_it(count, gated, groups):
    gate = HierarchicalGate(9, groups, 2, name="gate") if groups else None
    layer = Experts(3, 4, 9 if groups else 5, 2, 0.5, activation="relu", dropout=0.0, gated=gated, gate=gate)
    layer.build((None, None, 3))
    randomise(layer)
    x = positions(count)[None]
    found = numpy(layer(x))[0]
    inner, outer, inner_bias, outer_bias = (
        numpy(v) for v in (layer.inner, layer.outer, layer.inner_bias, layer.outer_bias)
    )
    linear, linear_bias = (numpy(v) for v in (layer.linear, layer.linear_bias)) if gated else (None, None)
    gates = layer.gate(x[0], np.ones(count, bool))
    for row in range(0, count, max(1, count // 10)):
        expected = np.zeros(3)
        for expert, weight in zip(numpy(gates.experts)[row].astype(int), numpy(gates.weights)[row], strict=True):
            hidden = np.maximum(x[0, row] @ inner[expert] + inner_bias[expert], 0.0)
            if gated:
                hidden = hidden * (x[0, row] @ linear[expert] + linear_bias[expert])
            expected += weight * (hidden @ outer[expert] + outer_bias[expert])
        np.testing.assert_allclose(found[row], expected, rtol=1e-4, atol=1e-5)


def test_the_cost_is_of_what_is_data_and_is_asked_for():
    layer = Experts(3, 4, experts=5, chosen=2, balance=0.5, activation="relu", dropout=0.0)
    layer.build((None, None, 3))
    randomise(layer)
    x, keep = positions(8).reshape(2, 4, 3), np.array([[True] * 4, [True, False, False, False]])
    costs = Costs()
    with in_mode(costs=costs):
        layer(x, keep_BT=keep)
    gates = layer.gate(x.reshape(8, 3), keep.ravel())
    expected = 0.5 * (squared_variation(gates.importance) + squared_variation(gates.load))
    np.testing.assert_allclose(float(sum(costs.per_target)), expected, rtol=1e-5)
    assert math.isfinite(expected)
    other = Costs()
    with in_mode(costs=other):
        layer(np.where(keep[..., None], x, 9.0).astype(np.float32), keep_BT=keep)
    np.testing.assert_allclose(float(sum(other.per_target)), expected, rtol=1e-5)
    layer(x)  # costs are kept only on request
    assert len(costs.per_target) == len(other.per_target) == 1


@pytest.mark.parametrize("count", [1, 7])
def test_the_cost_by_hand_is_the_same_for_any_number_of_positions(count):
    """One of three experts takes every position: importance and load are [n, 0, 0], whose CV^2 is (4 + 1 + 1) / 3.

    The score of the one is 30 deviations of the noise, softplus(0) + 0.01, above the others', so that none takes over.
    """
    layer = Experts(2, 4, experts=3, chosen=1, balance=0.25, activation="relu", dropout=0.0)
    layer.build((None, None, 2))
    layer.gate.gate_kernel.assign([[21.0, 0.0, 0.0], [0.0, 0.0, 0.0]])
    costs = Costs()
    with in_mode(costs=costs):
        layer(np.ones((1, count, 2), np.float32))
    np.testing.assert_allclose(float(sum(costs.per_target)), 0.25 * (2.0 + 2.0), rtol=1e-5)
