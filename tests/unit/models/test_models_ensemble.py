"""Ensembles, compared with the members' distributions averaged by hand.

Legend: T target length, V vocabulary.
"""

import functools

import numpy as np
import pytest

from t2t.hparams.lstm import LstmAttentionHParams
from t2t.inference.attention import NoAttentionError
from t2t.inference.translator import Translator
from t2t.models.ensemble import AVERAGES, Ensemble
from t2t.models.lstm import LstmSeq2seqAttention
from t2t.specs.constants import EOS_ID, INPUTS, TARGETS
from tests.builders import numpy, randomise
from tests.errors import refused
from tests.letters import TEXTS, WORDS, letters, translator_of

SEARCHES = [{"n_best": 3}, {"decode_method": "greedy"}, {"n_best": 2, "decode_method": "sample", "seed": 3}]
SEARCHES_BY_SPEED = [SEARCHES[0], *(pytest.param(search, marks=pytest.mark.slow) for search in SEARCHES[1:])]


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


@pytest.fixture(scope="module")
def alone(members):
    """The translator of a single member."""
    return Translator(letters(), members[0], translator(members).hparams)


def distributions_by_hand(models, average, source, ids):
    """Returns ln p of each token after those before each id, (T, V): each model's softmax in float64, their mean."""
    features = {INPUTS: np.array([[*WORDS.encode(source), EOS_ID]], np.int32), TARGETS: np.array([ids], np.int32)}
    logits = [numpy(model(features))[0].astype(np.float64) for model in models]
    each_TV = [own - np.log(np.exp(own).sum(axis=-1, keepdims=True)) for own in logits]
    if average == "probabilities":
        mean_TV = np.log(np.mean(np.exp(each_TV), axis=0))
    else:
        product_TV = np.exp(np.mean(each_TV, axis=0))
        mean_TV = np.log(product_TV / product_TV.sum(axis=-1, keepdims=True))
    return mean_TV


def log_probs_by_hand(models, average, source, ids):
    """Returns ln p of each id given those before it, (T,)."""
    return distributions_by_hand(models, average, source, ids)[np.arange(len(ids)), list(ids)]


@pytest.mark.parametrize("average", ["probabilities", pytest.param("log_probabilities", marks=pytest.mark.slow)])
@pytest.mark.parametrize("search", SEARCHES_BY_SPEED, ids=str)
def test_outputs_have_the_probability_of_the_mean_of_the_models(members, ensemble, average, search):
    outputs = ensemble(average).translate(TEXTS, **search)
    for text, found in zip(TEXTS, outputs, strict=True):
        for one in found[:2]:
            by_hand = log_probs_by_hand(members, average, text, one.ids).sum()
            assert one.log_prob == pytest.approx(by_hand, abs=1e-4)


@pytest.mark.parametrize("average", AVERAGES)
def test_a_given_output_is_scored_as_the_search_scores_it(members, ensemble, average):
    pairs = [("a b c", "d e"), ("h", ""), ("b b", "a b c d e f g h")]
    by_hand = [
        log_probs_by_hand(members, average, source, [*WORDS.encode(target), EOS_ID]).sum() for source, target in pairs
    ]
    assert ensemble(average).score(pairs) == pytest.approx(by_hand, abs=1e-4)


@pytest.mark.parametrize("average", ["probabilities", pytest.param("log_probabilities", marks=pytest.mark.slow)])
@pytest.mark.parametrize("search", SEARCHES_BY_SPEED, ids=str)
def test_equal_models_decode_as_one(members, alone, average, search):
    together = translator([members[0]] * 2, average)
    expected, found = (each.translate(TEXTS, **search) for each in (alone, together))
    assert [[one.ids for one in each] for each in found] == [[one.ids for one in each] for each in expected]
    for a, b in zip(expected, found, strict=True):
        assert [one.log_prob for one in b] == pytest.approx([one.log_prob for one in a], abs=1e-4)


def test_greedy_search_takes_the_likeliest_token_of_the_mean(members, ensemble):
    text = TEXTS[0]
    (one,) = ensemble("probabilities").translate([text], decode_method="greedy")[0]
    found_TV = distributions_by_hand(members, "probabilities", text, one.ids)
    assert (1 + found_TV[:, 1:].argmax(axis=-1)).tolist() == [*one.ids], "padding is never written"


def test_inputs_that_one_of_the_models_may_attend_to_are_those_of_the_ensemble():
    row = np.array([[3, 4, EOS_ID, 0]])
    reads_all, skips_end = (translator_of(letters(), input_end=reads).model for reads in (True, False))
    for models, expected in (((skips_end, reads_all), [1, 1, 1, 0]), ((skips_end, skips_end), [1, 1, 0, 0])):
        assert numpy(Ensemble(models).source_keep(row))[0].tolist() == expected


def test_the_state_of_each_model_follows_its_own_beam_and_batch(ensemble):
    both = ensemble("probabilities")
    together = both.translate(TEXTS, 3)
    alone = [both.translate([text], 3)[0] for text in TEXTS]
    assert [[one.ids for one in found] for found in together] == [[one.ids for one in found] for found in alone]


def test_other_models_another_average_or_order_of_weights_is_another_fingerprint(members):
    found = [
        translator(members).fingerprint(), translator(members, "log_probabilities").fingerprint(),
        translator(members[::-1]).fingerprint(), translator([members[0]] * 2).fingerprint(),
    ]  # fmt: skip
    assert len(set(found)) == 4


def test_attention_is_looked_at_in_one_run(members):
    with refused("2", by=NoAttentionError):
        translator(members).attend("a b", "c")
