"""Outputs of mask-predict equal those of a slow loop over an independent model, whatever the batches.

Legend: B sentences.
"""

import numpy as np
import pytest

from t2t.hparams.transformer_cmlm import TransformerCmlmHParams
from t2t.inference.attention import NoAttentionError
from t2t.inference.partial_outputs import has_partial_outputs
from t2t.layers.target_scores import BLOCK
from t2t.models.transformer_cmlm import TransformerCmlm
from t2t.specs.constants import EOS_ID
from tests.builders import numpy, tiny_hparams
from tests.errors import refused
from tests.letters import TEXTS, letters, translator_of
from tests.reference import transformer as plain
from tests.reference import transformer_cmlm as reference
from tests.unit.models.test_models_transformer_cmlm import reference_of

ONE_ITERATION, TEN = {"length_candidates": 5, "mask_predict_iterations": 1}, {"length_candidates": 5}


@pytest.fixture(scope="module")
def translator():
    hparams = TransformerCmlmHParams(**dict(tiny_hparams(num_hidden_layers=1).items()))
    return translator_of(letters(), TransformerCmlm, hparams)


def expected_of(translator, text, candidates, iterations, extra_length):
    model = reference_of(translator.model)
    (ids,) = translator.encode([text])
    memory, length_log_probs = model.read([*ids, EOS_ID])

    def log_probs_of(words):
        return [np.log(plain.softmax(row)) for row in model.fill([*words, EOS_ID], memory)]

    limit = len(ids) + 1 + extra_length
    return reference.best_of_lengths(length_log_probs, log_probs_of, candidates, iterations, limit)


@pytest.mark.parametrize(("candidates", "iterations", "extra_length"), [(5, 1, 5), (1, 4, 5), (5, 10, 5), (5, 10, 2)])
def test_outputs_are_those_of_the_slow_loop(translator, candidates, iterations, extra_length):
    changes = {
        "length_candidates": candidates, "mask_predict_iterations": iterations, "extra_length": extra_length,
    }  # fmt: skip
    found = translator.translate(TEXTS, candidates, **changes)
    for text, outputs in zip(TEXTS, found, strict=True):
        expected = expected_of(translator, text, candidates, iterations, extra_length)
        assert [one.ids for one in outputs] == [(*words, EOS_ID) for _, _, words in expected[: len(outputs)]]
        for column, values in enumerate(([one.score for one in outputs], [one.log_prob for one in outputs])):
            wanted = [each[column] for each in expected[: len(outputs)]]
            np.testing.assert_allclose(values, wanted, atol=(1e-4, 1e-3)[column])


def test_a_batch_is_its_sentences_one_by_one_however_many_blocks_it_has(translator):
    """The output layer runs on a block of positions at a time."""
    together = translator.translate(TEXTS * 15, 3, decode_batch_size=10**6)
    assert sum(len(one.ids) for outputs in together for one in outputs) * 5 / 3 > 2 * BLOCK
    for number, text in enumerate(TEXTS):
        (alone,) = translator.translate([text], 3)
        for outputs in together[number :: len(TEXTS)]:
            assert [one.ids for one in alone] == [one.ids for one in outputs]
            np.testing.assert_allclose([one.score for one in alone], [one.score for one in outputs], atol=1e-5)


def test_of_one_iteration_the_log_probability_is_that_of_scoring(translator):
    found = [best for (best,) in translator.translate(TEXTS[:4], **ONE_ITERATION)]
    scores = translator.score_ids(translator.encode(TEXTS[:4]), [one.ids[:-1] for one in found])
    np.testing.assert_allclose([one.log_prob for one in found], scores, atol=1e-4)


def test_searches_are_compiled_once_for_each_structure(translator):
    search = translator.model_engine.search
    settings, _ = translator.settings()
    assert search(settings, 5)._compiled is search(settings, 9)._compiled
    assert search(translator.settings(**ONE_ITERATION)[0], 5)._compiled is not search(settings, 5)._compiled


@pytest.mark.parametrize(
    ("changes", "about"),
    [
        *[
            ({name: value}, [f"{name}={value}", "decode_method=mask_predict"])
            for name, value in (
                ("beam_size", 8), ("alpha", 1.0), ("sampling_top_k", 3), ("coverage_penalty", 0.2),
                ("no_repeat_ngram_size", 2), ("replace_unknown", True), ("shortlist", True),
            )
        ],
        ({"decode_method": "greedy"}, ["decode_method=greedy"]),
        ({"n_best": 6}, ["n_best=6", 5]),
        ({"prefixes": ["a"]}, ["prefixes", "letters"]),
    ],
    ids=str,
)  # fmt: skip
def test_what_mask_predict_cannot_do_is_refused_by_name(translator, changes, about):
    with refused(*about):
        translator.translate(["a b"], **changes)


def test_alignments_and_attention_are_refused(translator):
    with refused("alignments=True", "decode_method=mask_predict"):
        translator.align([("a", "b")])
    with refused("TransformerCmlm", by=NoAttentionError):
        translator.attend("a b", "b")
    assert not has_partial_outputs(translator), "nothing is certain before the last iteration"


def test_models_that_write_token_by_token_have_no_mask_predict(letters_translator):
    with refused("decode_method=mask_predict"):
        letters_translator.translate(["a"], decode_method="mask_predict")


def test_weights_that_are_not_finite_are_said(translator):
    token = translator.model.mask_token
    before = numpy(token)
    token.assign(np.full(8, np.nan, np.float32))
    try:
        with refused("NaN"):
            translator.translate(["a b"], **ONE_ITERATION)
    finally:
        token.assign(before)
