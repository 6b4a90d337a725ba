"""Searches with shrinking and joined batches find the same as one search of the whole batch.

Legend: B sentences, V vocabulary.
"""

from itertools import chain

import numpy as np
import pytest
from keras import ops

from t2t.decoding.constraints.token_rules import forbid_padding
from t2t.decoding.settings import SearchSettings
from t2t.decoding.step import NextToken
from t2t.hparams.transformer import TransformerHParams
from t2t.inference.model_engine import MOST_SEARCHES, ModelEngine
from t2t.inference.rows import batches_of
from t2t.inference.tensorflow.batch_queue import BatchQueue
from t2t.inference.tensorflow.batch_search import TensorFlowBatchSearch
from t2t.models.transformer import Transformer
from t2t.specs.constants import PAD_ID
from tests.builders import padded, rows, tokens_spec
from tests.letters import moods
from tests.searches import decode

EXTRA = 30
LENGTHS = (9, 3, 7, 1, 8, 2, 5, 6, 4, 9, 2, 3)


@pytest.fixture(scope="module")
def model():
    hparams = TransformerHParams(
        hidden_size=8, filter_size=12, num_heads=2, num_hidden_layers=1, max_length=64, attention_bias=True
    )
    model = Transformer(hparams, tokens_spec())
    rng = np.random.default_rng(11)
    for variable in model.variables:
        if len(variable.shape) > 1:
            variable.assign(rng.normal(0.0, 0.8, variable.shape))
    return model


class NotingSearch(TensorFlowBatchSearch):
    """Notes the tokens and sentences of each batch when it goes on."""

    def __init__(self, *given):
        super().__init__(*given)
        self.seen = []

    def advance(self, batch):
        self.seen.append((batch.tokens, len(batch.indices)))
        return super().advance(batch)


def in_one_go(model, settings, ids_BS, length, extra=EXTRA):
    """Searches the whole batch in one go, with caches of fixed size that are copied at each step."""
    rows_each = settings.rows_per_sentence
    encoded = model.encode({"inputs": ids_BS})
    # The cache treats every row as a separate search, so the entries of a row are copied with its beam.
    cache = model.init_cache(encoded, len(ids_BS) * rows_each, length)

    def step(ids_N, position, cache):
        logits_NV, cache = model.decode_step(ids_N, position, cache, encoded)
        return forbid_padding(NextToken(logits_NV, normalised=False)), cache

    limits_B = (ids_BS != PAD_ID).sum(axis=1).astype("int32") + extra
    return decode(
        step, cache, settings, batch_size=len(ids_BS), vocab_size=model.spec.targets.vocab_size, max_steps=limits_B,
        sentence_seeds=np.arange(len(ids_BS), dtype="int32"),
    )  # fmt: skip


SETTINGS = {
    "beam": SearchSettings(beam_size=3),
    "whole list": SearchSettings(beam_size=4, only_best=False, penalty="power", alpha=1.0),
    "greedy": SearchSettings(method="greedy"),
    "sample": SearchSettings(method="sample", samples=2, temperature=0.7, top_k=5, seed=3),
}


def check_found(found, expected):
    indices = np.concatenate([indices for indices, _ in found])
    assert sorted(indices) == list(range(len(indices)))
    for some, result in found:
        wanted, width = type(result)(*(np.asarray(field)[some] for field in expected)), result.ids.shape[-1]
        np.testing.assert_array_equal(result.lengths, wanted.lengths)
        np.testing.assert_array_equal(result.ids[..., : wanted.ids.shape[-1]], wanted.ids[..., :width])
        np.testing.assert_allclose(result.scores, wanted.scores, rtol=1e-4, atol=1e-5)
        np.testing.assert_allclose(result.log_probs, wanted.log_probs, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(
    "settings",
    [
        pytest.param(settings, id=name, marks=() if name == "beam" else pytest.mark.exhaustive)
        for name, settings in SETTINGS.items()
    ],
)
def test_batches_that_shrink_and_go_on_together_find_what_one_search_finds(model, settings):
    sources = rows(np.random.default_rng(5), LENGTHS)
    expected = in_one_go(model, settings, padded(sources), length=9 + EXTRA)
    sizes = np.array(LENGTHS)
    search = NotingSearch(model, settings, EXTRA)
    for most in (12, 200):
        batches = batches_of(sources, sizes, most)
        search.seen.clear()
        check_found(list(chain.from_iterable(BatchQueue(search, sizes, 24).run(batches, np.arange(12)))), expected)
        begun, later = ([size for tokens, size in search.seen if (tokens > 0) == late] for late in (False, True))
        assert len(begun) == len(batches)
        if len(begun) == 1:
            assert later[-1] < 12, "it has shrunk"
        else:
            assert len(later) < len(begun), "some are joined"


@pytest.mark.slow
def test_other_numbers_compile_nothing_and_find_what_a_search_of_their_own_does(model):
    """alpha, temperature, top_p, the seed and the extra length are tensors of one compiled search."""
    rows_BS, sizes = padded(rows(np.random.default_rng(5), (9, 3, 7, 1))), np.array([9, 3, 7, 1])
    engine, compiled = ModelEngine(model), set()
    for settings in (
        SearchSettings(beam_size=3), SearchSettings(beam_size=3, alpha=2.0), SearchSettings(beam_size=3, alpha=0.0),
        SearchSettings(method="sample", seed=3, top_p=0.9), SearchSettings(method="sample", seed=-4, top_p=0.3),
        SearchSettings(method="sample", seed=2**40 + 3, temperature=0.2, top_p=0.99),
    ):  # fmt: skip
        for extra in (EXTRA, 1):
            search = engine.search(settings, extra)
            compiled.add(id(search._start))
            found = list(
                chain.from_iterable(BatchQueue(search, sizes, 99).run([(np.arange(4), rows_BS)], np.arange(4)))
            )
            check_found(found, in_one_go(model, settings, rows_BS, length=9 + extra, extra=extra))
    assert len(compiled) == 2


def test_searches_are_kept_up_to_a_number():
    """The one that was not asked for longest goes first. A model that answers at once compiles little."""

    class Constant:
        autoregressive, variables, spec = False, (), moods().spec()

        def __call__(self, features):
            return ops.zeros((ops.shape(features["inputs"])[0], 3))

    engine = ModelEngine(Constant())
    many = [SearchSettings(method="greedy", min_length=least) for least in range(MOST_SEARCHES + 1)]
    first, second, *_ = [engine.search(settings, 1) for settings in many[:-1]]
    assert engine.search(many[0], 1) is first
    engine.search(many[-1], 1)
    assert engine.search(many[0], 1) is first
    assert engine.search(many[1], 1) is not second
