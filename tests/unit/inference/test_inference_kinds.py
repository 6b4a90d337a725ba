"""Outputs for inputs other than text: pictures, clips, sound, vectors.

Legend: B batch, T target length, V vocabulary.
"""

import numpy as np
import pytest

from t2t.hparams.groups import DecodeHParams
from t2t.inference.translator import Translator
from t2t.models.transformer import Transformer
from t2t.problems.text_problems import Text2Text
from t2t.specs.constants import EOS_ID
from t2t.specs.features import FeatureKind, FeatureSpec, ProblemSpec
from t2t.text.token import TokenEncoder
from tests.builders import numpy, randomise, tiny_hparams

WORDS = TokenEncoder("abcdefgh")
SPECS = {
    "pictures": FeatureSpec(kind=FeatureKind.IMAGE, shape=(3, 4, 1)),
    "sound": FeatureSpec(kind=FeatureKind.AUDIO, sample_rate=400),
    "vectors": FeatureSpec(kind=FeatureKind.REAL, shape=(2,)),
    "clips": FeatureSpec(kind=FeatureKind.VIDEO, shape=(3, 4, 1)),
}


class Anything(Text2Text):
    """Something to letters."""

    name = "anything"

    def generate_samples(self, split, source):
        raise NotImplementedError


def rows_of(kind):
    rng = np.random.default_rng(1)
    if kind == "pictures":
        return list(rng.integers(0, 256, (3, 3, 4, 1)).astype(np.uint8))
    if kind == "clips":
        return [rng.integers(0, 256, (length, 3, 4, 1)).astype(np.uint8) for length in (5, 2, 8)]
    shape = () if kind == "sound" else (2,)
    return [rng.normal(0, 0.3, (length, *shape)).astype(np.float32) for length in (130, 57, 260)]


@pytest.fixture(params=SPECS, scope="module")
def kind(request):
    return request.param


@pytest.fixture(scope="module")
def translator(kind):
    targets = FeatureSpec(kind=FeatureKind.TOKENS, vocab_size=WORDS.vocab_size)
    spec = ProblemSpec(name="anything", features={"inputs": SPECS[kind], "targets": targets})
    model = randomise(Transformer(tiny_hparams(num_hidden_layers=1), spec), 5)
    table = numpy(model.target_embedding.table)
    table[EOS_ID] = 0.0  # so that end of sequence is rarely the most probable
    model.target_embedding.table.assign(table)
    problem = Anything().with_encoders({"targets": WORDS})
    return Translator(problem, model, DecodeHParams(beam_size=3, extra_length=4, alpha=0.0))


@pytest.mark.exhaustive
def test_each_gets_what_it_gets_alone_however_long_the_others_are(translator, kind):
    rows = rows_of(kind)
    concat_batches = translator.translate_ids(rows, n_best=2)
    alone = [translator.translate_ids([row], n_best=2)[0] for row in rows]
    assert [[h.ids for h in found] for found in concat_batches] == [[h.ids for h in found] for found in alone]
    assert len({round(found[0].log_prob, 3) for found in concat_batches}) > 1


def log_prob_by_hand(model, row, ids):
    """Returns the log-probability of an output in a forward pass by itself."""
    logits = numpy(model({"inputs": row[None], "targets": np.array([ids], np.int32)}))[0]
    log_probs = logits - np.log(np.exp(logits).sum(-1, keepdims=True))
    return log_probs[np.arange(len(ids)), ids].sum()


@pytest.mark.exhaustive
def test_the_probability_of_an_output_is_that_of_the_whole_forward_pass(translator, kind):
    for row in rows_of(kind):
        (best,) = translator.translate_ids([row])[0]
        np.testing.assert_allclose(best.log_prob, log_prob_by_hand(translator.model, row, best.ids), rtol=1e-3)


def test_targets_longer_than_their_inputs_are_scored_as_alone(translator, kind):
    rows = rows_of(kind)
    targets = [[2] * 7, [3] * (max(map(len, rows)) + 2), [4]]
    for row, ids, score in zip(rows, targets, translator.score_ids(rows, targets), strict=True):
        assert score == pytest.approx(log_prob_by_hand(translator.model, row, [*ids, EOS_ID]), rel=1e-3)


@pytest.mark.exhaustive
def test_outputs_are_as_long_as_there_are_positions_and_a_few_more(translator, kind):
    positions = {"pictures": 12, "sound": -(-130 // 16), "vectors": 130, "clips": 3}[kind]
    (best,) = translator.translate_ids([rows_of(kind)[0]], beam_size=1)[0]
    assert len(best.ids) == positions + 4
    assert EOS_ID not in best.ids
