"""Several adapters over one model: each gives the outputs of merged weights, and the model is unchanged."""

import numpy as np
import pytest

from t2t.checkpoints.adapters import merge_adapters
from t2t.hparams.transformer_cmlm import TransformerCmlmHParams
from t2t.inference.translator import Translator
from t2t.models.transformer_cmlm import TransformerCmlm
from t2t.models.transformer_encoder import TransformerEncoder
from t2t.runs.building import adapt_model
from t2t.training.tensorflow.distribute import build_strategy
from tests.builders import numpy, tiny_hparams
from tests.letters import TEXTS, letters, moods, translator_of

PAIRS = [("a b c", "d e"), ("h", ""), ("b b", "a b c d e f g h")]
SCALE = 0.5


def factors_of(model, seed, rank=2):
    """Returns random LoRA factors of all weights with two or more axes: attention, feed-forward, embedding tables."""
    rng, found = np.random.default_rng(seed), {}
    for variable in model.variables:
        if len(variable.shape) > 1:
            *others, inputs, outputs = variable.shape
            found[f"{variable.path}/lora_a"] = rng.normal(size=(*others, inputs, rank)).astype(np.float32)
            found[f"{variable.path}/lora_b"] = rng.normal(0, 0.3, (*others, rank, outputs)).astype(np.float32)
    return found


def arrays_of(model):
    return {variable.path: numpy(variable) for variable in model.variables}


def adapted_and_merged(make, seed):
    """Returns translators with adapters over a base model, of the base model, and of the merged weights."""
    base, merged = make(), make()
    factors = factors_of(base.model, seed)
    whole = merge_adapters(arrays_of(base.model), factors, SCALE)
    for variable in merged.model.variables:
        variable.assign(whole[variable.path])
    adapted = Translator(base.problem, adapt_model(base.model, factors, SCALE), base.hparams)
    return adapted, base, merged


def outputs(translator, **changes):
    return [[(one.text, one.ids) for one in found] for found in translator.translate(TEXTS, **changes)]


def log_probs(translator, **changes):
    return [one.log_prob for found in translator.translate(TEXTS, **changes) for one in found]


def assert_same_answers(found, expected, **changes):
    assert outputs(found, **changes) == outputs(expected, **changes)
    np.testing.assert_allclose(log_probs(found, **changes), log_probs(expected, **changes), rtol=1e-4, atol=1e-4)


@pytest.fixture(scope="module")
def three():
    return adapted_and_merged(lambda: translator_of(letters()), 1)


@pytest.mark.slow
def test_searches_scores_and_attention_are_those_of_merged_weights(three):
    adapted, base, merged = three
    before = arrays_of(base.model)
    assert_same_answers(adapted, merged, n_best=3)
    assert outputs(adapted, n_best=3) != outputs(base, n_best=3)
    np.testing.assert_allclose(adapted.score(PAIRS), merged.score(PAIRS), rtol=1e-5, atol=1e-5)
    assert adapted.align(PAIRS) == merged.align(PAIRS)
    ours, theirs = adapted.attend("a b c", "d e").maps, merged.attend("a b c", "d e").maps
    for kind, drawn in theirs.items():
        np.testing.assert_allclose(ours[kind].weights, drawn.weights, atol=1e-5)
    for path, array in arrays_of(base.model).items():
        assert array.tobytes() == before[path].tobytes()


def logits(model):
    features = {"inputs": np.array([[3, 4, 1]], np.int32), "targets": np.array([[5, 1]], np.int32)}
    return numpy(model(features))


def test_the_logits_are_those_of_merged_weights(three):
    adapted, _, merged = three
    np.testing.assert_allclose(logits(adapted.model), logits(merged.model), rtol=1e-5, atol=1e-5)


def test_each_of_several_adapters_adds_its_factors_alone(three):
    _, base, _ = three
    models = [adapt_model(base.model, factors_of(base.model, seed), SCALE) for seed in (2, 3, 4)]
    own = {id(variable): variable for model in (base.model, *models) for variable in model.variables}
    held = sum(np.prod(variable.shape) for variable in own.values())
    whole = sum(np.prod(variable.shape) for variable in base.model.variables)
    factors = sum(array.size for array in factors_of(base.model, 2).values())
    assert held == whole + 3 * factors
    found = [logits(model) for model in models]
    for one, seed in zip(found, (2, 3, 4), strict=True):
        merged = adapted_and_merged(lambda: translator_of(letters()), seed)[2]
        np.testing.assert_allclose(one, logits(merged.model), rtol=1e-5, atol=1e-5)
    assert np.abs(found[0] - found[1]).max() > 0.1 < np.abs(found[1] - found[2]).max()


def test_the_fingerprint_tells_adapters_from_their_base_and_from_each_other(three):
    adapted, base, _ = three
    other = adapt_model(base.model, factors_of(base.model, 1), 2 * SCALE)
    prints = {adapted.fingerprint(), base.fingerprint(), Translator(base.problem, other, base.hparams).fingerprint()}
    assert len(prints) == 3


@pytest.mark.slow
@pytest.mark.parametrize(
    "make",
    [
        lambda: translator_of(letters(), TransformerCmlm, TransformerCmlmHParams(**dict(tiny_hparams().items()))),
        lambda: translator_of(moods(), TransformerEncoder),
    ],
    ids=["mask_predict", "classes"],
)
def test_models_that_answer_otherwise(make):
    adapted, _, merged = adapted_and_merged(make, 1)
    assert_same_answers(adapted, merged)


@pytest.mark.slow
def test_several_devices_answer_with_adapters():
    def make():
        with build_strategy(worker_cpu=2).scope():
            return translator_of(letters())

    adapted, _, _ = adapted_and_merged(make, 1)
    assert len(adapted.model_engine.devices) == 2
    merged = adapted_and_merged(lambda: translator_of(letters()), 1)[2]
    assert_same_answers(adapted, merged, n_best=3)
    np.testing.assert_allclose(adapted.score(PAIRS), merged.score(PAIRS), rtol=1e-5, atol=1e-5)
