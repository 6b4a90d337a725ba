"""One update of models with mixtures of experts, split into parts: which results are the same, and which are not.

The square of a coefficient of variation is not a sum over rows, so each part of an update has its own balance loss.
"""

import numpy as np
import pytest

from t2t.hparams.groups import OptimizerHParams
from t2t.hparams.multi_model import MultiModelHParams
from t2t.hparams.transformer_moe import TransformerMoeHParams
from t2t.models.multi_model import MultiModel
from t2t.models.transformer_moe import TransformerMoe
from t2t.specs.features import FeatureKind, FeatureSpec, ProblemSpec
from t2t.training.engine_choice import training_engine
from t2t.training.optimizers import build_optimizer
from tests.builders import batch, padded, randomise, rows, tokens_spec

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


def features(part=slice(None)):
    rng = np.random.default_rng(11)
    sources, targets = rows(rng, SOURCES), rows(rng, TARGETS)
    return {"inputs": padded(sources[part]), "targets": padded(targets[part])}


def after_one_update(balance, replicas=1, cuts=((slice(None),),)):
    devices = training_engine().devices(worker_cpu=replicas)
    with devices.scope():
        model, optimizer = randomise(transformer(balance), seed=2), build_optimizer(OptimizerHParams(optimizer="sgd"))
    start = {v.path: np.asarray(v) for v in model.variables}
    stats = training_engine().update_step(model, optimizer, devices)(
        [[features(part) for part in parts] for parts in cuts], 1, 0.05
    )
    return {v.path: np.asarray(v) - start[v.path] for v in model.variables}, stats


@pytest.fixture(scope="module")
def in_one_piece():
    return after_one_update(0.0)


@pytest.mark.slow
@pytest.mark.parametrize("cut", EVERY_CUT)
def test_without_balance_one_update_is_the_same_however_it_is_cut(in_one_piece, cut):
    whole, expected = in_one_piece
    moved, stats = after_one_update(0.0, *CUTS[cut])
    np.testing.assert_allclose(float(stats.loss_sum), float(expected.loss_sum), rtol=1e-5)
    for name, value in whole.items():
        np.testing.assert_allclose(moved[name], value, rtol=2e-3, atol=1e-6, err_msg=name)


@pytest.mark.parametrize("cut", EVERY_CUT)
def test_the_balance_of_an_update_is_the_mean_of_its_parts_weighted_by_their_targets(in_one_piece, cut):
    model = randomise(transformer(BALANCE), seed=2)
    of_parts = [float(model.body(features(part)).cost_per_target) for part in PARTS]
    counts = [sum(TARGETS[part]) for part in PARTS]
    of_whole = float(model.body(features()).cost_per_target)
    expected = np.average(of_parts, weights=counts)
    assert abs(expected - of_whole) > 0.01, "the parts would have to use their experts as the whole does"

    _, stats = after_one_update(BALANCE, *CUTS[cut])
    assert float(stats.tokens) == sum(TARGETS)
    found = float(stats.loss_sum - in_one_piece[1].loss_sum) / sum(TARGETS)
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
