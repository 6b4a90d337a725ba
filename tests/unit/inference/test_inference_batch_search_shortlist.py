"""A shortlist search equals a search over all tokens with logits of -inf for tokens outside the shortlist.

Legend: B sentences, N rows of hypotheses, V vocabulary.
"""

import functools
from itertools import chain

import numpy as np
import pytest
from keras import ops

from t2t.decoding.constraints.token_rules import forbid_padding
from t2t.decoding.settings import SearchSettings
from t2t.decoding.step import NextToken
from t2t.inference.beam_trace import beam_tree
from t2t.inference.rows import batches_of
from t2t.inference.shortlist.shortlist import Shortlist
from t2t.inference.tensorflow.batch_queue import BatchQueue
from t2t.inference.tensorflow.batch_search import TensorFlowBatchSearch
from t2t.models.ensemble import Ensemble
from t2t.registry import MODELS
from t2t.specs.constants import EOS_ID
from tests.builders import padded, randomise, rows, tokens_spec
from tests.errors import refused
from tests.letters import TEXTS, letters, letters_alone, moods, sharing, translator_of
from tests.searches import decode
from tests.small_models import small_hparams

SIZE, EXTRA = 40, 30
LENGTHS = (9, 3, 7, 1, 8, 2, 5, 6, 4, 9, 2, 3)
FOUR = rows(np.random.default_rng(5), (9, 3, 7, 1), SIZE)
SETTINGS = {
    "beam": SearchSettings(beam_size=3),
    "whole list": SearchSettings(beam_size=4, only_best=False, penalty="power", alpha=1.0),
    "a beam wider than some shortlists": SearchSettings(beam_size=12, only_best=False),
    "greedy": SearchSettings(method="greedy"),
    "sample": SearchSettings(method="sample", samples=2, temperature=0.7, top_k=5, seed=3),
    "nucleus": SearchSettings(method="sample", samples=2, top_p=0.8, seed=3),
    "sample of more than there are": SearchSettings(method="sample", top_k=99, seed=3),
}
each_search = pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks={"beam": (), "nucleus": pytest.mark.slow}.get(name, pytest.mark.exhaustive))
        for name in SETTINGS
    ],
)


def shortlist_of(frequent, count=2, size=SIZE, seed=0):
    """Random translations of every piece."""
    translations = np.random.default_rng(seed).integers(2, size, (size, count)).astype(np.int32)
    return Shortlist(np.array(frequent, np.int32), translations, size)


SHORTLISTS = {
    "two": shortlist_of([7, 30]),
    "four": shortlist_of([7, 30], count=4),
    "everything": Shortlist(np.arange(SIZE, dtype=np.int32), np.ones((SIZE, 1), np.int32), SIZE),
    "none": None,
}


@functools.cache
def build(name="transformer"):
    """Returns a model that no test changes; an ensemble is named by its average."""
    if name in ("probabilities", "log_probabilities"):
        return Ensemble([build(), build("gnmt")], name)
    variant = {"shared_embedding_and_softmax_weights": False} if name == "transformer" else {}
    model_class = MODELS.get(name)
    return randomise(model_class(small_hparams(model_class, variant), tokens_spec(SIZE, SIZE)), 5)


@functools.cache
def search_of(settings, shortlist, model="transformer"):
    """Returns a search, compiled once."""
    return TensorFlowBatchSearch(build(model), SETTINGS[settings], EXTRA, SHORTLISTS[shortlist])


def with_others_at_minus_infinity(model, settings, ids_BS, allowed_BV):
    """Searches all tokens, with logits of -inf for those that are not allowed in a sentence."""
    per_sentence = settings.rows_per_sentence
    encoded = model.encode({"inputs": ids_BS})
    cache = model.init_cache(encoded, len(ids_BS) * per_sentence, ids_BS.shape[1] + EXTRA)
    allowed_NV = np.repeat(allowed_BV, per_sentence, axis=0)

    def step(ids_N, position, cache):
        logits_NV, cache = model.decode_step(ids_N, position, cache, encoded)
        logits_NV = ops.where(allowed_NV, logits_NV, -float("inf"))
        return forbid_padding(NextToken(logits_NV, normalised=False)), cache

    return decode(
        step, cache, settings, batch_size=len(ids_BS), vocab_size=SIZE,
        max_steps=(ids_BS != 0).sum(axis=1).astype("int32") + EXTRA,
    )  # fmt: skip


def found_by(search, sources, most=30, places=None):
    """Returns ids and log-probabilities of each source's hypotheses, from batches that shrink and are joined."""
    sizes = np.array(list(map(len, sources)))
    places = np.arange(len(sources)) if places is None else np.array(places)
    batches = batches_of(sources, sizes, most)
    return hypotheses_of(chain.from_iterable(BatchQueue(search, sizes, most).run(batches, places)))


def hypotheses_of(batches):
    found = {}
    for indices, result in batches:
        ids, log_probs, lengths = (np.asarray(part) for part in (result.ids, result.log_probs, result.lengths))
        for row, index in enumerate(indices):
            kept = [k for k in range(ids.shape[1]) if lengths[row, k]]
            found[int(index)] = [(ids[row, k, : lengths[row, k]].tolist(), float(log_probs[row, k])) for k in kept]
    return [found[index] for index in sorted(found)]


def assert_same(found, expected):
    for one, other in zip(found, expected, strict=True):
        assert [ids for ids, _ in one] == [ids for ids, _ in other]
        np.testing.assert_allclose([p for _, p in one], [p for _, p in other], rtol=1e-4, atol=1e-4)


def check_with_others_at_minus_infinity(name, shortlist, model, sources):
    """Compares with a search of all tokens; returns what is found, and what is allowed (B, V)."""
    ids_BS = padded(sources)
    allowed_BV = SHORTLISTS[shortlist].candidates(ids_BS)
    expected = with_others_at_minus_infinity(build(model), SETTINGS[name], ids_BS, allowed_BV)
    found = found_by(search_of(name, shortlist, model), sources)
    assert_same(found, hypotheses_of([(np.arange(len(sources)), expected)]))
    return found, allowed_BV


@each_search
def test_it_finds_what_a_search_of_all_with_the_others_at_minus_infinity_finds(name):
    """Whatever the batches, which shrink, are joined and have separate candidates."""
    sources = rows(np.random.default_rng(5), LENGTHS, SIZE)
    found, allowed_BV = check_with_others_at_minus_infinity(name, "two", "transformer", sources)
    for allowed_V, hypotheses in zip(allowed_BV, found, strict=True):
        assert all(allowed_V[ids].all() for ids, _ in hypotheses)
    in_all = found_by(search_of(name, "none"), sources)
    assert [[ids for ids, _ in one] for one in in_all] != [[ids for ids, _ in one] for one in found]


@pytest.mark.parametrize("model", ["gnmt", pytest.param("slice_net", marks=pytest.mark.exhaustive)])
def test_it_is_the_same_for_every_kind_of_decoder(model):
    check_with_others_at_minus_infinity("beam", "four", model, rows(np.random.default_rng(6), (4, 6, 3), SIZE))


@pytest.mark.parametrize(
    ("name", "model"),
    [
        ("beam", "transformer"), ("nucleus", "transformer"), ("beam", "probabilities"),
        pytest.param("beam", "log_probabilities", marks=pytest.mark.slow),
    ],
)  # fmt: skip
def test_a_batch_is_its_sentences_one_by_one(name, model):
    search = search_of(name, "two", model)
    alone = [found_by(search, [source], places=[place])[0] for place, source in enumerate(FOUR)]
    assert_same(found_by(search, FOUR, most=100), alone)


@each_search
def test_a_shortlist_of_everything_changes_nothing(name):
    sources = rows(np.random.default_rng(8), (5, 2, 7), SIZE)
    assert_same(found_by(search_of(name, "everything"), sources), found_by(search_of(name, "none"), sources))


def test_a_prefix_may_hold_what_is_no_candidate():
    (source,) = rows(np.random.default_rng(5), (5,), SIZE)
    allowed_V = SHORTLISTS["two"].candidates(padded([source]))[0]
    prefix = np.flatnonzero(~allowed_V)[[3, 0]].tolist()
    *_, last = search_of("beam", "two").steps(source, prefix)
    finished = last.progress.finished
    ids, length = np.asarray(finished.ids)[0, 0], int(np.asarray(finished.lengths)[0, 0])
    assert ids[:2].tolist() == prefix
    assert length > 2
    assert allowed_V[ids[2:length]].all()


# === Through the Python API ===


@pytest.fixture(scope="module")
def translator():
    translator = translator_of(letters(), shared_embedding_and_softmax_weights=False, num_hidden_layers=1)
    size = translator.model.spec.targets.vocab_size
    translator.model_engine.read_shortlist = lambda: shortlist_of([], 1, size)
    return translator


def ids_of(outputs):
    return [[hypothesis.ids for hypothesis in found] for found in outputs]


def test_each_call_may_ask_for_it(translator):
    restricted = translator.translate(TEXTS, 2, shortlist=True)
    assert ids_of(restricted) != ids_of(translator.translate(TEXTS, 2))
    one_by_one = [translator.translate([text], 2, shortlist=True)[0] for text in TEXTS]
    assert ids_of(restricted) == ids_of(one_by_one)
    pairs = [("a b", "c d"), ("c", "h")]
    scores = sharing(translator, shortlist=True).score(pairs)
    assert scores == translator.score(pairs), "those of given pairs are of all tokens"


def test_the_tree_of_a_beam_holds_candidates_alone(translator):
    size = translator.model.spec.targets.vocab_size
    source = [*translator.encode(["a b c"])[0], EOS_ID]
    allowed_V = shortlist_of([], 1, size).candidates(np.array([source]))[0]
    assert not allowed_V.all()
    assert all(allowed_V[list(node.ids)].all() for node in beam_tree(translator, "a b c", shortlist=True))


def test_what_decides_the_outputs_of_a_file_includes_it(translator):
    plain, size = translator.fingerprint(), translator.model.spec.targets.vocab_size
    named = []
    for name in ("first", "second"):
        other = type(translator)(translator.problem, translator.model, sharing(translator, shortlist=True).hparams)
        other.read_shortlist = lambda name=name: Shortlist(
            np.zeros(0, np.int32), np.ones((size, 1), np.int32), size, name
        )
        named.append(other.fingerprint())
    assert len({plain, *named}) == 3


@pytest.mark.parametrize(
    ("problem", "name", "about"),
    [
        (letters, "transformer", []),  # it is not of a run
        (letters_alone, "transformer", ["Transformer", "letters_alone"]),
        (moods, "transformer_encoder", ["TransformerEncoder", "moods"]),
    ],
)
def test_models_without_a_shortlist_are_refused_by_name(problem, name, about):
    with refused("shortlist=True", *about):
        translator_of(problem(), MODELS.get(name)).translate(["a b"], shortlist=True)
