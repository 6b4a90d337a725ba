"""Searches with shrinking and joined batches find the same as one search of the whole batch.

Legend: B sentences, V vocabulary.
"""

from itertools import chain
from unittest import mock

import numpy as np
import pytest

from t2t.decoding.constraints.token_rules import forbid_padding
from t2t.decoding.settings import SearchSettings
from t2t.decoding.step import NextToken
from t2t.hparams.transformer import TransformerHParams
from t2t.inference import batch_sizes, model_engine
from t2t.inference.model_engine import ModelEngine
from t2t.inference.rows import batches_of
from t2t.inference.search_batch import Batch, concat_batches
from t2t.inference.tensorflow import batch_queue, batch_search
from t2t.inference.tensorflow.batch_queue import BatchQueue
from t2t.inference.tensorflow.batch_search import TensorFlowBatchSearch
from t2t.models.transformer import Transformer
from t2t.specs.constants import PAD_ID
from tests.builders import padded, rows, tokens_spec
from tests.searches import decode

EXTRA = 20


@pytest.fixture(scope="module")
def model():
    hparams = TransformerHParams(
        hidden_size=8, filter_size=12, num_heads=2, num_hidden_layers=2, max_length=64, attention_bias=True
    )
    model = Transformer(hparams, tokens_spec())
    rng = np.random.default_rng(11)
    for variable in model.variables:
        if len(variable.shape) > 1:
            variable.assign(rng.normal(0.0, 0.8, variable.shape))
    return model


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


def check_found(found, expected, first=0):
    indices = np.concatenate([indices for indices, _ in found])
    assert sorted(indices - first) == list(range(len(indices)))
    for some, result in found:
        wanted, width = type(result)(*(np.asarray(field)[some - first] for field in expected)), result.ids.shape[-1]
        np.testing.assert_array_equal(result.lengths, wanted.lengths)
        np.testing.assert_array_equal(result.ids[..., : wanted.ids.shape[-1]], wanted.ids[..., :width])
        np.testing.assert_allclose(result.scores, wanted.scores, rtol=1e-4, atol=1e-5)
        np.testing.assert_allclose(result.log_probs, wanted.log_probs, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("settings", SETTINGS.values(), ids=SETTINGS.keys())
@pytest.mark.exhaustive
def test_pieces_and_shrinking_batches_find_what_one_search_finds(model, settings, monkeypatch):
    monkeypatch.setattr(batch_search, "TOKENS_PER_CALL", 3)
    monkeypatch.setattr(batch_sizes, "SIZE_STEP", 2)
    ids_BS = padded(rows(np.random.default_rng(5), (9, 3, 7, 1, 8, 2, 5, 6, 4, 9, 2, 3)))
    search = TensorFlowBatchSearch(model, settings, EXTRA)
    sizes = []
    keep = search._keep
    monkeypatch.setattr(
        search, "_keep", lambda searched, chosen: (sizes.append(len(chosen)), keep(searched, chosen))[1]
    )
    found, batch = [], search.start(np.arange(12) + 100, ids_BS, np.arange(12))
    while batch is not None:
        some, batch = search.advance(batch)
        found += some
    check_found(found, in_one_go(model, settings, ids_BS, length=9 + EXTRA), first=100)
    assert len(sizes) > 1


@pytest.mark.parametrize(
    "settings",
    [
        pytest.param(settings, id=name, marks=() if name == "beam" else pytest.mark.exhaustive)
        for name, settings in SETTINGS.items()
    ],
)
def test_batches_that_go_on_together_find_what_one_search_finds(model, settings, monkeypatch):
    monkeypatch.setattr(batch_search, "TOKENS_PER_CALL", 3)
    joined = []
    monkeypatch.setattr(
        batch_queue, "concat_batches", lambda batches: (joined.append(len(batches)), concat_batches(batches))[1]
    )
    sources = rows(np.random.default_rng(5), (9, 3, 7, 1, 8, 2, 5, 6, 4, 9, 2, 3))
    sizes = np.array(list(map(len, sources)))
    batches = batches_of(sources, sizes, most=12)
    assert len(batches) > 2
    search = TensorFlowBatchSearch(model, settings, EXTRA)
    found = list(chain.from_iterable(BatchQueue(search, sizes, 24).run(batches, np.arange(12))))
    check_found(found, in_one_go(model, settings, padded(sources), length=9 + EXTRA))
    assert max(joined) > 1


def test_batches_wait_for_others_until_they_are_one_batchs_worth(monkeypatch):
    """Rows of 4 ids, at most 16 ids a batch: of three batches with 2 unfinished rows each, two are joined."""
    begun, together_with = [], []

    class Search:
        def start(self, indices, ids, seeds, prefixes=None, constraints=None):
            return Batch(indices, 0, None)

        def advance(self, batch):
            begun.append((batch.tokens, batch.indices.tolist()))
            if batch.tokens == 2:
                return [(batch.indices, "done")], None
            left = batch.indices[:2] if batch.tokens == 0 else batch.indices
            gone = batch.indices[len(left) :]
            return [(gone, "gone")] if len(gone) else [], Batch(left, batch.tokens + 1, None)

    def join(batches):
        together_with.append([batch.indices.tolist() for batch in batches])
        return Batch(np.concatenate([batch.indices for batch in batches]), batches[0].tokens, None)

    monkeypatch.setattr(batch_queue, "concat_batches", join)
    batches = [(np.arange(4) + 4 * i, np.zeros((4, 4), np.int32)) for i in range(3)]
    found = chain.from_iterable(BatchQueue(Search(), np.full(12, 4), 16).run(batches, np.arange(12)))
    assert sorted(n for indices, _ in found for n in indices.tolist()) == list(range(12))
    assert together_with[:2] == [[[0, 1], [4, 5]], [[8, 9]]]
    assert together_with[2:] == [[[0, 1, 4, 5]], [[8, 9]]]
    assert [tokens for tokens, _ in begun] == [0, 0, 0, 1, 1, 2, 2]


@pytest.mark.slow
def test_other_numbers_compile_nothing_and_find_what_a_search_of_their_own_does(model, monkeypatch):
    """alpha, temperature, top_p, the seed and the extra length are tensors of one compiled search."""
    rows_BS, sizes = padded(rows(np.random.default_rng(5), (9, 3, 7, 1))), np.array([9, 3, 7, 1])
    engine = ModelEngine(model)
    compiled = []
    build = model_engine.build_search
    monkeypatch.setattr(model_engine, "build_search", lambda *how: (compiled.append(how), build(*how))[1])
    for settings in (
        SearchSettings(beam_size=3), SearchSettings(beam_size=3, alpha=2.0), SearchSettings(beam_size=3, alpha=0.0),
        SearchSettings(method="sample", seed=3, top_p=0.9), SearchSettings(method="sample", seed=-4, top_p=0.3),
        SearchSettings(method="sample", seed=2**40 + 3, temperature=0.2, top_p=0.99),
    ):  # fmt: skip
        for extra in (EXTRA, 1):
            queue = BatchQueue(engine.search(settings, extra), sizes, 99)
            found = list(chain.from_iterable(queue.run([(np.arange(4), rows_BS)], np.arange(4))))
            check_found(found, in_one_go(model, settings, rows_BS, length=9 + extra, extra=extra))
    assert len(compiled) == 2


def test_compiled_searches_are_kept_up_to_a_number(model, monkeypatch):
    monkeypatch.setattr(model_engine, "MOST_SEARCHES", 2)
    engine = ModelEngine(model)
    monkeypatch.setattr(model_engine, "build_search", lambda *how: mock.Mock())
    one, two, three = (SearchSettings(beam_size=size) for size in (2, 3, 4))
    for settings in (one, two, one, three):
        engine.search(settings, 1)
    assert list(engine._searches) == [(one.structure, False), (three.structure, False)]
