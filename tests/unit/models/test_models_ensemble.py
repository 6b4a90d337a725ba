"""Several models over one problem: ensembles, and adapters over one model.

Legend: T target length, V vocabulary.
"""

import functools

import numpy as np
import pytest

from t2t.backends.tensorflow.devices import build_strategy
from t2t.checkpoints.adapters import merge_adapters
from t2t.hparams.lstm import LstmAttentionHParams
from t2t.hparams.transformer_cmlm import TransformerCmlmHParams
from t2t.inference.attention import NoAttentionError
from t2t.inference.translator import Translator
from t2t.models.ensemble import AVERAGES, Ensemble
from t2t.models.lstm import LstmSeq2seqAttention
from t2t.models.transformer_cmlm import TransformerCmlm
from t2t.models.transformer_encoder import TransformerEncoder
from t2t.runs.loading import adapt_model
from t2t.specs import EOS_ID, INPUTS, TARGETS
from tests.builders import numpy, padded, randomise, tiny_hparams
from tests.errors import refused
from tests.letters import TEXTS, WORDS, letters, moods, translator_of

SAMPLES = {"n_best": 2, "decode_method": "sample", "seed": 3}


@pytest.fixture(scope="module")
def members():
    """A Transformer, and an LSTM, which has another kind of state, over the same letters; of one layer each."""
    problem = letters()
    lstm = LstmSeq2seqAttention(LstmAttentionHParams(hidden_size=8, num_hidden_layers=1), problem.spec())
    return [translator_of(problem, num_hidden_layers=1).model, randomise(lstm, 4)]


def translator(models, average="probabilities"):
    first = translator_of(letters())
    return Translator(first.problem, Ensemble(models, average), first.hparams)


@pytest.fixture(scope="module")
def ensemble(members):
    """Returns the translator of an average of the members, which is compiled once."""
    return functools.cache(functools.partial(translator, members))


def log_probs_by_hand(models, average, source, ids):
    """Returns ln p of each id given those before it, (T,): each model's softmax in float64, their mean."""
    features = {INPUTS: np.array([[*WORDS.encode(source), EOS_ID]], np.int32), TARGETS: np.array([ids], np.int32)}
    logits = [numpy(model(features))[0].astype(np.float64) for model in models]
    each_TV = [own - np.log(np.exp(own).sum(axis=-1, keepdims=True)) for own in logits]
    if average == "probabilities":
        mean_TV = np.log(np.mean(np.exp(each_TV), axis=0))
    else:
        product_TV = np.exp(np.mean(each_TV, axis=0))
        mean_TV = np.log(product_TV / product_TV.sum(axis=-1, keepdims=True))
    return mean_TV[np.arange(len(ids)), list(ids)]


@pytest.mark.parametrize("average", ["probabilities", pytest.param("log_probabilities", marks=pytest.mark.slow)])
@pytest.mark.parametrize("search", [{"n_best": 3}, pytest.param(SAMPLES, marks=pytest.mark.slow)], ids=str)
def test_outputs_have_the_probability_of_the_mean_of_the_models(members, ensemble, average, search):
    outputs = ensemble(average).translate(TEXTS, **search)
    for text, found in zip(TEXTS, outputs, strict=True):
        for one in found[:2]:
            assert 0 not in one.ids, "padding is never written"
            by_hand = log_probs_by_hand(members, average, text, one.ids).sum()
            assert one.log_prob == pytest.approx(by_hand, abs=1e-4)


@pytest.mark.parametrize("average", AVERAGES)
def test_a_given_output_has_the_probability_of_the_mean_of_the_models(members, average):
    pairs = [("a b c", "d e"), ("h", ""), ("b b", "a b c d e f g h")]
    sources, targets = ([[*WORDS.encode(text), EOS_ID] for text in side] for side in zip(*pairs, strict=True))
    found = Ensemble(members, average).score_targets({INPUTS: padded(sources), TARGETS: padded(targets)}).log_probs
    for (source, _), target, log_probs_T in zip(pairs, targets, numpy(found), strict=True):
        by_hand = log_probs_by_hand(members, average, source, target)
        np.testing.assert_allclose(log_probs_T[: len(target)], by_hand, atol=1e-4)


def test_inputs_that_one_of_the_models_may_attend_to_are_those_of_the_ensemble():
    row = np.array([[3, 4, EOS_ID, 0]])
    reads_all, skips_end = (translator_of(letters(), input_end=reads).model for reads in (True, False))
    for models, expected in (((skips_end, reads_all), [1, 1, 1, 0]), ((skips_end, skips_end), [1, 1, 0, 0])):
        assert numpy(Ensemble(models).source_keep(row))[0].tolist() == expected


def test_other_models_another_average_or_order_of_weights_is_another_fingerprint(members):
    found = [
        translator(members).fingerprint(), translator(members, "log_probabilities").fingerprint(),
        translator(members[::-1]).fingerprint(), translator([members[0]] * 2).fingerprint(),
    ]  # fmt: skip
    assert len(set(found)) == 4


def test_attention_is_looked_at_in_one_run(members):
    with refused("2", by=NoAttentionError):
        translator(members).attend("a b", "c")


# === Several adapters over one model ===

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
    assign_merged(merged.model, base.model, factors)
    adapted = Translator(base.problem, adapt_model(base.model, factors, SCALE), base.hparams)
    return adapted, base, merged


def assign_merged(model, base, factors):
    """Gives a model the weights of the base with factors merged."""
    whole = merge_adapters(arrays_of(base), factors, SCALE)
    for variable in model.variables:
        variable.assign(whole[variable.path])


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


def test_each_of_several_adapters_adds_its_factors_alone(three):
    _, base, _ = three
    models = [adapt_model(base.model, factors_of(base.model, seed), SCALE) for seed in (2, 3, 4)]
    own = {id(variable): variable for model in (base.model, *models) for variable in model.variables}
    held = sum(np.prod(variable.shape) for variable in own.values())
    whole = sum(np.prod(variable.shape) for variable in base.model.variables)
    factors = sum(array.size for array in factors_of(base.model, 2).values())
    assert held == whole + 3 * factors
    found, merged = [logits(model) for model in models], translator_of(letters()).model
    for one, seed in zip(found, (2, 3, 4), strict=True):
        assign_merged(merged, base.model, factors_of(base.model, seed))
        np.testing.assert_allclose(one, logits(merged), rtol=1e-5, atol=1e-5)
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
