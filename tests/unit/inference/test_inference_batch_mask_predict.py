"""Outputs of mask-predict equal those of a slow loop over an independent model, whatever the batches.

Legend: B sentences.
"""

import numpy as np
import pytest

from t2t.errors import UserError
from t2t.hparams.transformer_cmlm import TransformerCmlmHParams
from t2t.inference import batch_mask_predict
from t2t.inference.attention import NoAttentionError
from t2t.inference.partial_outputs import has_partial_outputs
from t2t.models.transformer_cmlm import TransformerCmlm
from t2t.specs.constants import EOS_ID
from tests.builders import tiny_hparams
from tests.letters import TEXTS, letters, translator_of
from tests.reference import transformer as plain
from tests.reference import transformer_cmlm as reference
from tests.unit.models.test_models_transformer_cmlm import reference_of


@pytest.fixture(scope="module")
def translator():
    hparams = TransformerCmlmHParams(**dict(tiny_hparams().items()))
    return translator_of(letters(), TransformerCmlm, hparams)


def expected_of(translator, text, candidates, iterations, extra_length):
    model = reference_of(translator.model)
    (ids,) = translator.encode([text])
    memory, length_log_probs = model.read([*ids, EOS_ID])

    def log_probs_of(words):
        return [np.log(plain.softmax(row)) for row in model.fill([*words, EOS_ID], memory)]

    limit = len(ids) + 1 + extra_length
    return reference.best_of_lengths(length_log_probs, log_probs_of, candidates, iterations, limit)


@pytest.mark.parametrize(
    ("candidates", "iterations", "extra_length"), [(1, 1, 5), (3, 1, 5), (1, 4, 5), (3, 4, 5), (4, 10, 2)]
)
def test_outputs_are_those_of_the_slow_loop(translator, candidates, iterations, extra_length):
    changes = {
        "length_candidates": candidates, "mask_predict_iterations": iterations, "extra_length": extra_length,
    }  # fmt: skip
    found = translator.translate(TEXTS, candidates, **changes)
    for text, outputs in zip(TEXTS, found, strict=True):
        expected = expected_of(translator, text, candidates, iterations, extra_length)
        assert [one.ids for one in outputs] == [(*words, EOS_ID) for _, _, words in expected]
        np.testing.assert_allclose([one.score for one in outputs], [score for score, _, _ in expected], atol=1e-4)
        np.testing.assert_allclose([one.log_prob for one in outputs], [total for _, total, _ in expected], atol=1e-3)


def test_a_batch_is_its_sentences_one_by_one(translator):
    together = translator.translate(TEXTS, 3)
    for text, outputs in zip(TEXTS, together, strict=True):
        (alone,) = translator.translate([text], 3)
        assert [one.ids for one in alone] == [one.ids for one in outputs]
        np.testing.assert_allclose([one.score for one in alone], [one.score for one in outputs], atol=1e-5)


def test_blocks_of_the_output_layer_change_nothing(translator, monkeypatch):
    whole = translator.translate(TEXTS)
    monkeypatch.setattr(batch_mask_predict, "BLOCK", 3)
    other = translator_of(letters(), TransformerCmlm, translator.model.hparams)
    assert [best.ids for (best,) in other.translate(TEXTS)] == [best.ids for (best,) in whole]


def test_of_one_iteration_the_log_probability_is_that_of_scoring(translator):
    found = [best for (best,) in translator.translate(TEXTS[:4], mask_predict_iterations=1)]
    scores = translator.score_ids(translator.encode(TEXTS[:4]), [one.ids[:-1] for one in found])
    np.testing.assert_allclose([one.log_prob for one in found], scores, atol=1e-4)


def test_searches_are_compiled_once_for_each_structure(translator):
    search = translator.model_engine.search
    settings, _ = translator.settings()
    assert search(settings, 5)._compiled is search(settings, 9)._compiled
    assert search(translator.settings(mask_predict_iterations=2)[0], 5)._compiled is not search(settings, 5)._compiled


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"beam_size": 8}, "beam_size=8: nothing reads it while decode_method=mask_predict; it is read with"),
        ({"alpha": 1.0}, "alpha=1.0: nothing reads it while decode_method=mask_predict"),
        ({"sampling_top_k": 3}, "sampling_top_k=3: nothing reads it while decode_method=mask_predict"),
        ({"coverage_penalty": 0.2}, "coverage_penalty=0.2: nothing reads it while decode_method=mask_predict"),
        ({"no_repeat_ngram_size": 2}, "no_repeat_ngram_size=2: nothing reads it while decode_method=mask_predict"),
        ({"replace_unknown": True}, "replace_unknown=True: nothing reads it while decode_method=mask_predict"),
        ({"shortlist": True}, "shortlist=True: nothing reads it while decode_method=mask_predict"),
        ({"decode_method": "greedy"}, "decode_method=greedy: the model predicts all tokens of an output at once; "),
        ({"n_best": 6}, "n_best=6: mask_predict search of width 5 has from 1 to 5 hypotheses; "),
        ({"prefixes": ["a"]}, "prefixes of outputs: a model of letters answers at once; leave them out"),
    ],
    ids=str,
)  # fmt: skip
def test_what_mask_predict_cannot_do_is_refused_by_name(translator, changes, said):
    with pytest.raises(UserError) as error:
        translator.translate(["a b"], **changes)
    assert str(error.value).startswith(said)


def test_alignments_and_attention_are_refused(translator):
    with pytest.raises(UserError, match="alignments=True: nothing reads it while decode_method=mask_predict"):
        translator.align([("a", "b")])
    with pytest.raises(
        NoAttentionError, match="attention of TransformerCmlm: it predicts the words of an output several"
    ):
        translator.attend("a b", "b")


def test_nothing_is_certain_before_the_last_iteration(translator):
    assert not has_partial_outputs(translator)


def test_models_that_write_token_by_token_have_no_mask_predict():
    message = "decode_method=mask_predict: the model predicts one token after the other; leave it out"
    with pytest.raises(UserError, match=message):
        translator_of(letters()).translate(["a"], decode_method="mask_predict")


def test_weights_that_are_not_finite_are_said(translator):
    broken = translator_of(letters(), TransformerCmlm, translator.model.hparams)
    broken.model.mask_token.assign(np.full(8, np.nan, np.float32))
    with pytest.raises(UserError, match="the model gives no finite probabilities"):
        broken.translate(["a b"])
