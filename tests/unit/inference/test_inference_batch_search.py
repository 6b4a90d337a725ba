"""Searches with shrinking and joined batches, and with a shortlist, find the same as one search of the whole batch.

Legend: B sentences, N rows of hypotheses, V vocabulary.
"""

import functools
import threading
from itertools import chain

import numpy as np
import pytest
from keras import ops

from t2t.hparams.transformer import TransformerHParams
from t2t.inference.batch_search import SearchRows
from t2t.inference.engine import MOST_SEARCHES
from t2t.inference.growing_search import BatchQueue, GrowingSearch
from t2t.inference.model_engine import ModelEngine
from t2t.inference.rows import batches_of
from t2t.inference.search_steps import beam_tree
from t2t.inference.shortlist import Shortlist
from t2t.models.ensemble import Ensemble
from t2t.models.transformer import Transformer
from t2t.registry import MODELS
from t2t.search.constraints import forbid_padding
from t2t.search.settings import SearchSettings
from t2t.search.step import NextToken
from t2t.specs import EOS_ID, PAD_ID
from tests.builders import padded, randomise, rows, tokens_spec
from tests.errors import refused
from tests.letters import TEXTS, letters, letters_alone, moods, sharing, translator_of
from tests.searches import decode
from tests.small_models import small_hparams
from tests.waiting import LIMIT_S, join_all, start_thread

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


class NotingSearch(GrowingSearch):
    """Notes the tokens and sentences of each batch when it goes on."""

    def __init__(self, *given):
        super().__init__(*given)
        self.seen = []

    def advance(self, batch, weights):
        self.seen.append((batch.tokens, len(batch.indices)))
        return super().advance(batch, weights)


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
    assert sorted(indices) == list(range(len(expected.lengths)))
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
        found = chain.from_iterable(BatchQueue(search, sizes, 24).run(batches, SearchRows(np.arange(12))))
        check_found(list(found), expected)
        begun, later = ([size for tokens, size in search.seen if (tokens > 0) == late] for late in (False, True))
        assert len(begun) == len(batches)
        if len(begun) == 1:
            assert later[-1] < 12, "it has shrunk"
        else:
            assert len(later) < len(begun), "some are joined"


@pytest.mark.slow
def test_other_numbers_compile_nothing_and_find_what_a_search_of_their_own_does(model):
    """alpha, temperature, top_k, top_p, the seed and the extra length are tensors of one compiled search."""
    rows_BS, sizes = padded(rows(np.random.default_rng(5), (9, 3, 7, 1))), np.array([9, 3, 7, 1])
    engine, compiled = ModelEngine(model), set()
    for settings in (
        SearchSettings(beam_size=3), SearchSettings(beam_size=3, alpha=2.0), SearchSettings(beam_size=3, alpha=0.0),
        SearchSettings(method="sample", seed=3, top_p=0.9), SearchSettings(method="sample", seed=-4, top_p=0.3),
        SearchSettings(method="sample", seed=2**40 + 3, temperature=0.2, top_p=0.99),
        SearchSettings(method="sample", seed=3, top_k=2), SearchSettings(method="sample", seed=4, top_k=7),
    ):  # fmt: skip
        for extra in (EXTRA, 1):
            search = engine.search(settings, extra)
            compiled.add(id(search._start))
            found = list(
                chain.from_iterable(
                    BatchQueue(search, sizes, 99).run([(np.arange(4), rows_BS)], SearchRows(np.arange(4)))
                )
            )
            check_found(found, in_one_go(model, settings, rows_BS, length=9 + extra, extra=extra))
    assert len(compiled) == 3


class Constant:
    """A model that answers at once, and compiles little; it may be told to wait for a gate, and when."""

    autoregressive, variables, spec = False, (), moods().spec()

    def __init__(self):
        self.gate, self.begun = threading.Event(), threading.Event()
        self.gate.set()

    def __call__(self, features):
        self.begun.set()
        assert self.gate.wait(LIMIT_S)
        return ops.zeros((ops.shape(features["inputs"])[0], 3))


def test_while_a_search_is_compiled_others_are_found():
    model = Constant()
    engine, (first, second) = ModelEngine(model), (SearchSettings(method="greedy", min_length=n) for n in (0, 1))
    expected = engine.search(first, 1)
    model.gate.clear()
    model.begun.clear()
    compiling = start_thread(engine.search, second, 1)
    assert model.begun.wait(LIMIT_S)
    assert engine.search(first, 1) is expected
    assert not model.gate.is_set()
    model.gate.set()
    join_all(compiling)


def test_searches_are_kept_up_to_a_number():
    """The one that was not asked for longest goes first."""
    engine = ModelEngine(Constant())
    many = [SearchSettings(method="greedy", min_length=least) for least in range(MOST_SEARCHES + 1)]
    first, second, *_ = [engine.search(settings, 1) for settings in many[:-1]]
    assert engine.search(many[0], 1) is first
    engine.search(many[-1], 1)
    assert engine.search(many[0], 1) is first
    assert engine.search(many[1], 1) is not second


# === A shortlist search is a search over all tokens with logits of -inf for those outside ===

SIZE = 40
FOUR = rows(np.random.default_rng(5), (9, 3, 7, 1), SIZE)
SEARCHES = {
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
        for name in SEARCHES
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
    return GrowingSearch(build(model), SEARCHES[settings], EXTRA, SHORTLISTS[shortlist])


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
    return hypotheses_of(chain.from_iterable(BatchQueue(search, sizes, most).run(batches, SearchRows(places))))


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
    expected = with_others_at_minus_infinity(build(model), SEARCHES[name], ids_BS, allowed_BV)
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
    *_, last = search_of("beam", "two").steps(source, SearchRows(np.zeros(1, int), [prefix]))
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
