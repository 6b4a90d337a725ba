"""One update that is split into parts: mixtures of experts, sampled outputs, several problems.

Legend: B sentences.
"""

import dataclasses
import functools
from types import SimpleNamespace

import numpy as np
import pytest

from t2t import registry
from t2t.backends import backend
from t2t.hparams.groups import OptimizerHParams
from t2t.hparams.multi_model import MultiModelHParams
from t2t.hparams.transformer_moe import TransformerMoeHParams
from t2t.models.multi_model import MultiModel
from t2t.models.transformer import Transformer
from t2t.models.transformer_moe import TransformerMoe
from t2t.runs.objectives import SampledCandidates
from t2t.specs.features import FeatureKind, FeatureSpec, ProblemSpec
from t2t.text.encoder import LanguageMarks
from t2t.training.optimizers import build_optimizer
from t2t.training.step import UpdateStep
from t2t.training.weights import model_arrays, optimizer_arrays
from tests.builders import batch, batch_of, random_pairs, randomise, tiny_hparams, tokens_spec, total_loss
from tests.equivalence.identity import arrays_of, differing
from tests.slopes import step_of

# === Mixtures of experts: which results are the same, and which are not ===
# The square of a coefficient of variation is not a sum over rows: each part of an update has its own balance loss.

BALANCE = 0.5
SOURCES, TARGETS = (5, 3, 7, 2, 6, 4), (4, 6, 2, 9, 3, 1)
PARTS = (slice(0, 2), slice(2, 6))
CUTS = {"two replicas": (2, [PARTS]), "two micro-batches": (1, [[part] for part in PARTS])}
EVERY_CUT = [pytest.param("two replicas", marks=pytest.mark.exhaustive), "two micro-batches"]
SIZES = {"hidden_size": 8, "num_heads": 2, "num_experts": 3, "experts_per_token": 1, "label_smoothing": 0.0}


class QuietMoe(TransformerMoe):
    """A Transformer without gate noise, which, like dropout, is sampled separately for each micro-batch."""

    def body(self, features, seed=None):
        return super().body(features)


def transformer(balance):
    layers = {"filter_size": 6, "num_hidden_layers": 1, "expert_layer_step": 1, "layer_prepostprocess_dropout": 0.0}
    hparams = TransformerMoeHParams(**SIZES, **layers, expert_balance=balance)
    return QuietMoe(hparams, tokens_spec())


LONGER = random_pairs(SOURCES, TARGETS)


def experts_update(balance, replicas=1, cuts=((slice(None),),)):
    step = step_of(lambda: randomise(transformer(balance), seed=2), replicas)
    start = arrays_of(step.model)
    stats = step([[batch_of(LONGER[part]) for part in parts] for parts in cuts], 1, 0.05)
    return {path: array - start[path] for path, array in arrays_of(step.model).items()}, stats


@pytest.fixture(scope="module")
def in_one_piece():
    return experts_update(0.0)


@pytest.mark.slow
@pytest.mark.parametrize("cut", EVERY_CUT)
def test_without_balance_one_update_is_the_same_however_it_is_cut(in_one_piece, cut):
    whole, expected = in_one_piece
    moved, stats = experts_update(0.0, *CUTS[cut])
    np.testing.assert_allclose(float(stats.loss_sum), float(expected.loss_sum), rtol=1e-5)
    for name, value in whole.items():
        np.testing.assert_allclose(moved[name], value, rtol=2e-3, atol=1e-6, err_msg=name)


@pytest.mark.parametrize("cut", EVERY_CUT)
def test_the_balance_of_an_update_is_the_mean_of_its_parts_weighted_by_their_targets(cut):
    model = randomise(transformer(BALANCE), seed=2)
    of_parts = [float(model.body(batch_of(LONGER[part])).cost_per_target) for part in PARTS]
    counts = [sum(TARGETS[part]) for part in PARTS]
    of_whole = float(model.body(batch_of(LONGER)).cost_per_target)
    expected = np.average(of_parts, weights=counts)
    assert abs(expected - of_whole) > 0.01, "the parts would have to use their experts as the whole does"

    _, stats = experts_update(BALANCE, *CUTS[cut])
    assert float(stats.tokens) == sum(TARGETS)
    without, _ = total_loss(randomise(transformer(0.0), seed=2), batch_of(LONGER))
    found = (float(stats.loss_sum) - without) / sum(TARGETS)
    np.testing.assert_allclose(found, expected, rtol=1e-3)


# === The paper's balance loss, for each model ===

CLASSES = {
    "inputs": FeatureSpec(kind=FeatureKind.IMAGE, shape=(6, 5, 3)),
    "targets": FeatureSpec(kind=FeatureKind.LABEL, vocab_size=7),
}
IMAGES = np.random.default_rng(0).integers(0, 256, (2, 6, 5, 3)).astype(np.uint8)


def multi_model(spec):
    layers = {"filter_size": 6, "num_hidden_layers": 1, "num_decoder_layers": 1, "dropout": 0.0}
    return MultiModel(MultiModelHParams(**SIZES, **layers, expert_balance=BALANCE), spec)


@pytest.mark.parametrize(
    ("model", "features", "targets"),
    [
        (lambda: transformer(BALANCE), batch(sources=(9, 8), targets=(2, 1)), 3),
        (lambda: multi_model(tokens_spec()), batch(sources=(2, 1), targets=(9, 8)), 17),
        (
            lambda: multi_model(ProblemSpec(name="classes", features=CLASSES)),
            {"inputs": IMAGES, "targets": np.array([3, 0], np.int32)},
            2,
        ),
    ],
    ids=["few words from many", "many words from few", "classes of images"],
)
def test_what_is_added_to_the_mean_loss_is_the_papers_term_whatever_the_positions(model, features, targets):
    """A new gate without noise assigns all n positions to the first of three experts, since all scores are equal.

    The importance is [n, 0, 0], whose CV^2 is (4 + 1 + 1) / 3 = 2; the load is uniform, since all were equally likely.
    Each model has two such layers, one in its encoder and one in its decoder.
    """
    model = model()
    body = model.body(features)
    (loss, count), (without, _) = (model.loss_sum(x, features["targets"]) for x in (body, body.hidden))
    assert float(count) == targets
    np.testing.assert_allclose(float(loss - without) / targets, 2 * BALANCE * (2.0 + 0.0), rtol=1e-4)


# === Sampled outputs: equal however an update is split, and the reward rises ===

OBJECTIVES = ("expected_reward", pytest.param("minimum_risk", marks=pytest.mark.slow))
SAMPLED = {"objective_samples": 3, "extra_length": 2}


class Words:
    """A problem whose words are the ids."""

    target_language, finishes, features = "", False, {}
    languages = SimpleNamespace(marks=LanguageMarks)

    def decode_target(self, ids):
        return " ".join(str(one) for one in ids if one != 1)


def sampling_step(hparams, vocab_size, replicas=1, optimizer="sgd", seed=2):
    """Returns the training step of a random Transformer of one layer."""
    devices = backend().devices(worker_cpu=replicas)
    with devices.scope():
        model = randomise(Transformer(hparams, tokens_spec(vocab_size, vocab_size)), seed)
        optimizer = build_optimizer(OptimizerHParams(optimizer=optimizer))
    objective = registry.OBJECTIVES.get(hparams.objective)(hparams)
    objective.draw = SampledCandidates(model, {"": Words()}, hparams, run_seed=5)
    return UpdateStep(model, optimizer, devices, objective=objective)


PAIRS = random_pairs((5, 3, 7, 2), (4, 6, 2, 5))


def sampled_update(objective, replicas, micro_batches):
    hparams = tiny_hparams(num_hidden_layers=1).replace(objective=objective, **SAMPLED)
    step = sampling_step(hparams, 13, replicas)
    before = {v.path: np.asarray(v) for v in step.model.variables}
    stats = step([[batch_of(pairs) for pairs in batches] for batches in micro_batches], 1, 0.5)
    assert bool(stats.finite)
    return {v.path: np.asarray(v) - before[v.path] for v in step.model.variables}, stats, step.objective.figures()


@pytest.mark.parametrize("objective", OBJECTIVES)
@pytest.mark.parametrize("cut", ["two replicas", pytest.param("two micro-batches", marks=pytest.mark.slow)])
def test_an_update_is_the_same_however_it_is_cut(objective, cut):
    """Each example has its own samples, so replicas or micro-batches have the same ones as the whole batch."""
    whole, stats, figures = sampled_update(objective, 1, [[PAIRS]])
    assert float(stats.tokens) == sum(len(target) for _, target in PAIRS)
    cuts = {"two replicas": (2, [[PAIRS[:1], PAIRS[1:]]]), "two micro-batches": (1, [[PAIRS[:3]], [PAIRS[3:]]])}
    found, others, rewards = sampled_update(objective, *cuts[cut])
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
    batch = batch_of([(source, [2, 3, 1]) for source, _ in PAIRS])
    batch["inputs"] = np.minimum(batch["inputs"], 5)
    rewards = []
    for update in range(1, 61):
        step([[batch]], update, 0.005)
        rewards.append(step.objective.figures()["reward"])
    assert np.mean(rewards[-10:]) > np.mean(rewards[:10]) + 0.25


# === Several problems: an update on one of them is the same as without the others ===

ONE, OTHER = (dataclasses.replace(tokens_spec(), name=name) for name in ("one", "other"))
BOTH = ProblemSpec(name="one-other", members=(ONE, OTHER))
WAYS = {
    "plain": {},
    "two replicas": {"replicas": 2},
    "accumulation": {"micro_batches": 2},
    "two replicas, accumulation, decay, average, clipping": {
        "replicas": 2, "micro_batches": 2, "weight_decay": 0.1, "ema_decay": 0.9, "clip_grad_norm": 0.5,
    },
}  # fmt: skip
EVERY_WAY = [
    pytest.param(way, id=name, marks=() if name == "plain" else pytest.mark.exhaustive) for name, way in WAYS.items()
]


def mixture_step(spec, replicas=1, **options):
    model = functools.partial(Transformer, tiny_hparams(num_hidden_layers=1), spec)
    return step_of(lambda: randomise(model()), replicas, "adamw", **options)


@functools.cache
def step_of_both():
    """A step that tests may continue, since they compare weights before and after."""
    return mixture_step(BOTH)


def batches(update, replicas=1, micro_batches=1, **_):
    seeds = np.arange(replicas * micro_batches).reshape(micro_batches, replicas) + 10 * update
    return [[batch(seed=int(seed)) for seed in row] for row in seeds]


def state(step):
    return {**model_arrays(step), **optimizer_arrays(step)}


@pytest.mark.parametrize("way", EVERY_WAY)
def test_updates_of_one_problem_are_those_of_a_model_of_it_alone(way):
    """Up to rounding, however the update is split."""
    options = {name: value for name, value in way.items() if name != "micro_batches"}
    alone, both = mixture_step(ONE, **options), mixture_step(BOTH, **options)
    own = {variable.path: np.asarray(variable) for variable in alone.model.variables}
    for variable in both.model.variables:
        if (path := variable.path.replace("/one/", "/")) in own:
            variable.assign(own[path])
    for mean, variable in zip(both.ema, both.model.trainable_variables, strict=False):
        mean.assign(variable.value)
    for update in (1, 2, 3):
        alone(batches(update, **way), update, 0.01)
        both(batches(update, **way), update, 0.01, "one")
    expected, found = model_arrays(alone), model_arrays(both)
    shared = {path.replace("/one/", "/"): value for path, value in found.items() if "/other/" not in path}
    assert shared.keys() == expected.keys()
    for path, value in expected.items():
        np.testing.assert_allclose(shared[path], value, rtol=1e-6, atol=1e-7, err_msg=path)


@pytest.mark.parametrize("way", EVERY_WAY)
def test_an_update_of_one_problem_leaves_what_is_the_others_as_it_is(way):
    options = {name: value for name, value in way.items() if name != "micro_batches"}
    step = mixture_step(BOTH, **options) if options else step_of_both()
    step(batches(1, **way), 1, 0.01, "one")
    step(batches(2, **way), 2, 0.01, "other")
    before, averages = state(step), [mean.numpy() for mean in step.ema]
    step(batches(3, **way), 3, 0.01, "one")
    changed = differing(before, state(step))
    assert not any("other/" in name or "other_" in name for name in changed)
    assert {name for name in model_arrays(step) if "/other/" not in name} <= changed
    for variable, old, mean in zip(step.model.trainable_variables, averages, step.ema, strict=False):
        assert (old.tobytes() == mean.numpy().tobytes()) == ("/other/" in variable.path)


def test_rehearsing_every_problem_changes_nothing():
    step = step_of_both()
    before = state(step)
    for problem in ("one", "other"):
        step.warm_up(batches(1), problem)
    assert differing(before, state(step)) == set()
