"""Training on sampled outputs: equal however an update is split, and the reward rises.

That it resumes exactly is tested in `test_equivalence_resuming.py`.

Legend: B sentences.
"""

import numpy as np
import pytest

from t2t.hparams.groups import OptimizerHParams
from t2t.models.transformer import Transformer
from t2t.runs.sampled_candidates import SampledCandidates
from t2t.text.language_codes import LanguageMarks
from t2t.training.engine_choice import training_engine
from t2t.training.optimizers import build_optimizer
from t2t.training.sampled_objectives import build_sampled_objective
from tests.builders import padded, randomise, rows, tiny_hparams, tokens_spec

OBJECTIVES = ("expected_reward", pytest.param("minimum_risk", marks=pytest.mark.slow))
SAMPLED = {"objective_samples": 3, "extra_length": 2}


class Words:
    """A problem whose words are the ids."""

    target_language, finishes = "", False

    def language_marks(self):
        return LanguageMarks()

    def decode_target(self, ids):
        return " ".join(str(one) for one in ids if one != 1)


def sampling_step(hparams, vocab_size, replicas=1, optimizer="sgd", seed=2):
    """Returns the training step of a random Transformer of one layer."""
    devices = training_engine().devices(worker_cpu=replicas)
    with devices.scope():
        model = randomise(Transformer(hparams, tokens_spec(vocab_size, vocab_size)), seed)
        optimizer = build_optimizer(OptimizerHParams(optimizer=optimizer))
    objective = build_sampled_objective(hparams, SampledCandidates(model, {"": Words()}, hparams, run_seed=5))
    return training_engine().update_step(model, optimizer, devices, objective=objective)


def pairs_of(sources=(5, 3, 7, 2), targets=(4, 6, 2, 5)):
    rng = np.random.default_rng(11)
    return list(zip(rows(rng, sources), rows(rng, targets), strict=True))


def features(pairs):
    sources, targets = zip(*pairs, strict=True)
    return {"inputs": padded(sources), "targets": padded(targets)}


def after_one_update(objective, replicas, micro_batches):
    hparams = tiny_hparams(num_hidden_layers=1).replace(objective=objective, **SAMPLED)
    step = sampling_step(hparams, 13, replicas)
    before = {v.path: np.asarray(v) for v in step.model.variables}
    stats = step([[features(pairs) for pairs in batches] for batches in micro_batches], 1, 0.5)
    assert bool(stats.finite)
    return {v.path: np.asarray(v) - before[v.path] for v in step.model.variables}, stats, step.objective.figures()


@pytest.mark.parametrize("objective", OBJECTIVES)
@pytest.mark.parametrize("cut", ["two replicas", pytest.param("two micro-batches", marks=pytest.mark.slow)])
def test_an_update_is_the_same_however_it_is_cut(objective, cut):
    """Each example has its own samples, so replicas or micro-batches have the same ones as the whole batch."""
    pairs = pairs_of()
    whole, stats, figures = after_one_update(objective, 1, [[pairs]])
    assert float(stats.tokens) == sum(len(target) for _, target in pairs)
    cuts = {"two replicas": (2, [[pairs[:1], pairs[1:]]]), "two micro-batches": (1, [[pairs[:3]], [pairs[3:]]])}
    found, others, rewards = after_one_update(objective, *cuts[cut])
    np.testing.assert_allclose(float(others.loss_sum), float(stats.loss_sum), rtol=1e-5)
    assert rewards == pytest.approx(figures)
    for path, change in whole.items():
        np.testing.assert_allclose(found[path], change, rtol=1e-3, atol=1e-5 * np.abs(change).max() + 1e-7)


@pytest.mark.slow
@pytest.mark.parametrize("objective", ["expected_reward", "minimum_risk"])
def test_the_reward_of_samples_rises(objective):
    """The target is `2 3` for all inputs; the model learns it from rewards only, since the likelihood has no weight."""
    hparams = tiny_hparams(num_hidden_layers=1).replace(
        objective=objective, objective_samples=20, objective_likelihood_weight=0.0, extra_length=2
    )
    step = sampling_step(hparams, 6, optimizer="adam")
    batch = features([(source, [2, 3, 1]) for source, _ in pairs_of()])
    batch["inputs"] = np.minimum(batch["inputs"], 5)
    rewards = []
    for update in range(1, 61):
        step([[batch]], update, 0.005)
        rewards.append(step.objective.figures()["reward"])
    assert np.mean(rewards[-10:]) > np.mean(rewards[:10]) + 0.25
