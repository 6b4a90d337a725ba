"""Sampled candidates in training and their rewards.

Legend: B sentences, C candidates of each, T length.
"""

import copy
import logging
import types
from types import SimpleNamespace

import numpy as np
import pytest

from t2t.errors import UnknownNameError, UserError
from t2t.metrics.text import sentence_gleu
from t2t.models.classics.neural_gpu import NeuralGpu, NeuralGpuHParams
from t2t.problems.base import Problem
from t2t.problems.parsing import ParsingTrees
from t2t.runs.objectives import SampledCandidates, build_objective, widest_rows
from t2t.specs.constraints import DEAD, FiniteConstraint
from t2t.text.encoder import LanguageMarks
from t2t.text.words import TokenEncoder
from t2t.training.objectives import MinimumRisk
from tests.builders import batch, padded, tiny_hparams, tiny_transformer, tokens_spec
from tests.errors import refused

SAMPLES = 4


class Words:
    """A problem whose words are the ids, and whose targets begin with the ids of `start`."""

    name, target_language, features, encoders = "words", "", {}, {}
    constraint, finishes = Problem.constraint, Problem.finishes

    def __init__(self, spec=None, start=()):
        self.spec = lambda: spec or tokens_spec()
        self.languages = SimpleNamespace(marks=lambda: LanguageMarks(output_start=start))

    def decode_target(self, ids):
        return " ".join(str(one) for one in ids if one != 1)


def hparams_of(objective="expected_reward", **changes):
    values = {"objective_samples": SAMPLES, "extra_length": 3, **changes}
    return tiny_hparams(num_hidden_layers=1).replace(objective=objective, **values)


@pytest.fixture(scope="module")
def model():
    return tiny_transformer(num_hidden_layers=1)


SEARCHES = {}
"""By sizes: compiled searches, which samplers of other seeds, metrics and objectives share."""


def sampler(model, seed=3, start=(), **changes):
    hparams = hparams_of(**changes)
    found = SampledCandidates(model, {"": Words(start=start)}, hparams, seed)
    found._searches = SEARCHES.setdefault((hparams.objective_samples, hparams.extra_length), {})
    return found


def drawn(model, features, update=1, **changes):
    ((candidates_BCT, rewards_BC),) = sampler(model, **changes)([features], update, "")
    return candidates_BCT, rewards_BC


def trimmed(rows):
    return [np.trim_zeros(row, "b").tolist() for row in rows]


def test_candidates_are_the_target_and_samples_with_their_rewards(model):
    features = batch()
    candidates_BCT, rewards_BC = drawn(model, features)
    assert candidates_BCT.shape[:2] == rewards_BC.shape == (3, 1 + SAMPLES)
    for target, candidates_CT, rewards_C in zip(features["targets"], candidates_BCT, rewards_BC, strict=True):
        (target,), rows = trimmed([target]), trimmed(candidates_CT)
        assert rows[0] == target
        expected = [sentence_gleu(*([str(i) for i in ids if i != 1] for ids in (row, target))) for row in rows]
        np.testing.assert_allclose(rewards_C, expected, rtol=1e-6)
        assert rewards_C[0] == 1.0
    assert len({tuple(row) for row in trimmed(candidates_BCT[0])}) > 2


def test_samples_of_an_example_are_a_function_of_seed_and_update_whatever_its_batch(model):
    features = batch()
    alone = {name: ids[1:2] for name, ids in batch(widths=(9, 8)).items()}
    whole, again = drawn(model, features)[0], drawn(model, alone)[0]
    assert trimmed(again[0]) == trimmed(whole[1])
    for changes in ({"update": 2}, {"seed": 4}):
        assert trimmed(drawn(model, features, **changes)[0][1]) != trimmed(whole[1])


def test_samples_begin_with_the_language_code_as_targets_do(model):
    features = batch()
    features["targets"] = np.concatenate([np.full_like(features["targets"][:, :1], 7), features["targets"]], axis=1)
    (coded, rewards), free = drawn(model, features, start=(7,)), drawn(model, features)[0]
    assert (coded[:, :, 0] == 7).all()
    assert (free[:, 1:, 0] != 7).any()
    assert len({tuple(row) for row in trimmed(coded[0])}) > 2
    assert (rewards[:, 1:] > 0.0).any()


def test_several_batches_are_each_given_theirs(model):
    """Two replicas on one device receive the candidates of their batches in order."""
    first, second = batch(seed=0), batch(seed=1)
    together = sampler(model)([first, second], 1, "")
    for features, (found, rewards) in zip((first, second), together, strict=True):
        expected, expected_rewards = drawn(model, features)
        np.testing.assert_array_equal(found, expected)
        np.testing.assert_array_equal(rewards, expected_rewards)


def test_the_candidates_of_a_risk_are_a_set(model):
    """Repeated draws are left empty; with two words and at most two ids there are many."""
    features = {"inputs": padded([[1], [1]]), "targets": padded([[1], [2, 1]])}
    changes = {"objective_samples": 20, "extra_length": 1}
    samples_BCT, _ = drawn(model, features, **changes)
    risk = MinimumRisk(hparams_of(**changes))
    risk.draw = sampler(model, **changes)
    (prepared,) = risk.prepare([features], 1, "")
    for all_of_them, distinct in zip(samples_BCT, prepared[risk.CANDIDATES], strict=True):
        rows = trimmed(distinct)
        left = [row for row in rows if row]
        assert left == [row for i, row in enumerate(trimmed(all_of_them)) if row not in trimmed(all_of_them)[:i]]
        assert 1 < len(left) < len(rows) == 21


def test_rows_of_padding_have_no_candidates_and_rewards_of_errors_are_negative(model):
    features = {name: np.concatenate([ids, np.zeros_like(ids[:1])]) for name, ids in batch().items()}
    candidates_BCT, rewards_BC = drawn(model, features)
    assert candidates_BCT[:3].any(axis=2).all()
    assert not candidates_BCT[3].any()
    assert not rewards_BC[3].any()
    _, rewards_BC = drawn(model, batch(), objective_metric="wer")
    np.testing.assert_array_equal(rewards_BC[:, 0], 0.0)
    assert (rewards_BC[:, 1:] <= 0.0).all()
    assert (rewards_BC[:, 1:] < 0.0).any()


@pytest.mark.parametrize(
    ("metric", "expected"), [("bracket_f1", [100.0, 50.0, 100.0, 0.0]), ("bracket_errors", [0.0] * 4)]
)
def test_outputs_that_the_problem_finishes_are_scored_as_it_finishes_them(model, metric, expected):
    """A parser writes labels, which are a tree only with the words: of two phrases, the first sample has one right."""
    labels = ["S", "/S", "NP", "/NP", "X", "/X", "DT", "NN"]
    encoders = {"inputs": TokenEncoder(["a", "dog", "runs"]), "targets": TokenEncoder(labels)}
    target, *samples = (
        [*encoders["targets"].encode(text), 1]
        for text in ("S NP DT NN /NP NN /S", "S DT NP NN NN /NP /S", "S NP DT NN /NP NN /S", "X DT X NN NN /X /X")
    )
    problem = ParsingTrees().with_encoders(encoders)
    drawing = SampledCandidates(model, {"": problem}, hparams_of(objective_metric=metric), run_seed=3)
    features = {"inputs": padded([[*encoders["inputs"].encode("a dog runs"), 1]], 6), "targets": padded([target])}
    _, rewards_BC = drawing._with_rewards(features, padded(samples)[None], "")
    np.testing.assert_allclose(rewards_BC, [expected])


# === What a warm-up counts with ===
@pytest.mark.parametrize(("sources", "targets"), [((5, 3, 7), (4, 6, 2)), ((2, 3), (9, 14))])
def test_a_warm_up_has_the_longest_samples_that_there_may_be(model, sources, targets):
    """Inputs of S ids have samples of up to S + 3."""
    features = batch(sources=sources, targets=targets)
    candidates_BCT, _ = drawn(model, features, update=0)
    assert candidates_BCT.shape == (len(sources), 1 + SAMPLES, max(max(sources) + 3, max(targets)))
    rows = widest_rows(features, model, hparams_of())
    assert rows["targets"].shape == (candidates_BCT.shape[0] * candidates_BCT.shape[1], candidates_BCT.shape[2])
    np.testing.assert_array_equal(rows["inputs"], np.repeat(features["inputs"], 1 + SAMPLES, axis=0))


def test_samples_are_no_longer_than_the_model_has_positions_for():
    model = tiny_transformer(positions="learned", max_length=8)
    assert widest_rows(batch(), model, hparams_of())["targets"].shape[1] == 8
    assert widest_rows(features := batch(), model, tiny_hparams()) is features


# === What is logged and refused ===
def build(model, problem=Words, **hparams):
    data = [types.SimpleNamespace(problem=problem(model.spec))]
    return build_objective(model, data, tiny_hparams().replace(**hparams), 1)


class Restricted(Words):
    """A problem that allows no output but the empty one."""

    def constraint(self, source):
        return FiniteConstraint(({},), (DEAD,), frozenset({0}))


def test_samples_are_drawn_without_the_problems_constraint(model):
    """The expected reward is that of the model's distribution, which a constraint would replace by another."""
    restricted = copy.copy(sampler(model))
    restricted._problems = {"": Restricted()}
    ((candidates_BCT, _),) = restricted([batch()], 1, "")
    np.testing.assert_array_equal(candidates_BCT, drawn(model, batch())[0])


@pytest.mark.parametrize(
    ("problem", "constrained", "lines"), [(Restricted, True, 1), (Restricted, False, 0), (Words, True, 0)]
)
def test_it_is_logged_where_decoding_is_constrained(model, problem, constrained, lines, caplog):
    caplog.set_level(logging.INFO, "t2t")
    build(model, problem, objective="minimum_risk", constrain_output=constrained)
    assert caplog.text.count("objective=minimum_risk") == lines


@pytest.mark.parametrize(("name", "error", "about"), [
    ("glue", UnknownNameError, ["gleu", "bleu"]), ("teacher_forced/loss", UserError, ["objective_metric="]),
])  # fmt: skip
def test_a_metric_that_text_cannot_give_is_refused(model, name, error, about):
    with refused(name, *about, by=error):
        build(model, objective="minimum_risk", objective_metric=name)


def test_a_model_that_does_not_write_token_by_token_or_has_no_inputs_is_refused():
    model = NeuralGpu(NeuralGpuHParams(hidden_size=8, num_hidden_layers=1), tokens_spec())
    for name, value in (("objective", "expected_reward"), ("scheduled_sampling_prob", 0.25)):
        with refused("NeuralGpu", "words", f"{name}={value}"):
            build(model, **{name: value})
    with refused("objective=expected_reward", "words"):
        build(tiny_transformer(tokens_spec(inputs=0)), objective="expected_reward")
