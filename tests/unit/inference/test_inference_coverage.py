"""The coverage penalty of real models: the scores of a search against the attention of one pass over its output."""

import math

import numpy as np
import pytest

from t2t.hparams.conv_s2s import ConvS2sHParams
from t2t.hparams.gnmt import GnmtHParams
from t2t.hparams.lstm import LstmHParams
from t2t.inference.attention import ENCODER_DECODER, attention_maps
from t2t.models.conv_s2s import ConvS2s
from t2t.models.gnmt import Gnmt
from t2t.models.lstm import LstmSeq2seq
from t2t.models.transformer import Transformer
from t2t.specs.constants import EOS_ID
from tests.builders import tiny_hparams
from tests.errors import refused
from tests.letters import TEXTS, WORDS, letters, translator_of

BETA = 0.7
READS_NO_END = "transformer that reads no end"
MODELS = {
    "transformer": (),
    READS_NO_END: (Transformer, tiny_hparams(input_end=False, num_hidden_layers=1)),
    "gnmt": (Gnmt, GnmtHParams(hidden_size=8, num_hidden_layers=2, dropout=0.0)),
    "conv_s2s": (ConvS2s, ConvS2sHParams(hidden_size=8, num_hidden_layers=1, max_length=64, dropout=0.0)),
}


@pytest.mark.parametrize(
    "name", [name if name != "gnmt" else pytest.param(name, marks=pytest.mark.slow) for name in MODELS]
)
def test_scores_hold_the_penalty_of_the_attention_whatever_is_in_the_batch(letters_translator, name):
    translator = translator_of(letters(), *MODELS[name]) if MODELS[name] else letters_translator
    changes = {"coverage_penalty": BETA, "alpha": 0.6, "extra_length": 0}
    penalties = []  # of outputs that are short enough to leave words of their inputs out
    for text, found in zip(TEXTS, translator.translate(TEXTS, 3, **changes), strict=True):
        for best in found[:2]:
            row = [*WORDS.encode(text), EOS_ID]
            seen = attention_maps(translator.model, row, best.ids, {})[ENCODER_DECODER]
            coverage_S = seen.weights.mean(axis=(0, 1)).sum(axis=0)
            coverage_S = coverage_S if name != READS_NO_END else coverage_S[:-1]
            penalties.append(BETA * np.log(np.minimum(coverage_S + 1e-6, 1.0)).sum())
            expected = best.log_prob / ((5 + len(best.ids)) / 6) ** 0.6 + penalties[-1]
            assert best.score == pytest.approx(expected, rel=1e-3, abs=1e-3)
            assert math.isfinite(best.score)
    assert min(penalties) < -0.05, "or this shows nothing"


def test_a_model_without_attention_is_refused():
    translator = translator_of(letters(), LstmSeq2seq, LstmHParams(hidden_size=4, num_hidden_layers=1))
    with refused("coverage_penalty=0.2"):
        translator.translate(["a b"], coverage_penalty=0.2)
