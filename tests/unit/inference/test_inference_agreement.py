"""An engine is taken if it computes the model's network and searches as well, and refused for any other network."""

import dataclasses
import functools

import numpy as np
import pytest

from t2t.inference.ctranslate2.cache import Agreement, Answers, Questions
from t2t.inference.engine import Engine
from t2t.inference.fallback import EXTRA_LENGTH, Demand, FallbackEngine, Judge, compare_answers
from t2t.inference.translator import Translator
from t2t.runs.engines import DEMANDS
from t2t.specs import UNK_ID
from tests.builders import rows
from tests.letters import TEXTS, WORDS, fast_of, letters, sharing, translator_of

EXACT = DEMANDS["float32"]
LONG = 30
"""Ids of the longest row."""


def questions():
    rng = np.random.default_rng(2)
    lengths = [*rng.integers(2, 12, 15), LONG]
    return Questions(*(rows(rng, np.roll(lengths, shift), WORDS.vocab_size) for shift in (0, 5, 1)))


class Verdicts(dict):
    """Keeps verdicts and answers in memory."""

    reference = None
    set = dict.__setitem__

    def keep_reference(self, reference):
        self.reference = reference


class Wrapped(Engine):
    """An engine that refuses nothing, and answers as another one."""

    name = "wrapped"

    def __init__(self, engine):
        self._engine = engine

    def decode(self, request):
        return self._engine.decode(request)

    def score_tokens(self, sources, targets, hparams):
        return self._engine.score_tokens(sources, targets, hparams)

    def warm_up(self, request):
        raise NotImplementedError


class ReadsPadding(Wrapped):
    """Reads the padding of its inputs, as a network without their mask would."""

    def score_tokens(self, sources, targets, hparams):
        longest = max(map(len, sources))
        padded = [[*source, *[UNK_ID] * (longest - len(source))] for source in sources]
        return self._engine.score_tokens(padded, targets, hparams)


class FindsOthers(Wrapped):
    """Scores as it should, and finds the outputs of other inputs."""

    def decode(self, request):
        return self._engine.decode(request.of_rows(np.roll(np.arange(len(request.rows)), 1)))


@pytest.fixture(scope="module")
def greedy(letters_translator):
    return sharing(letters_translator, decode_method="greedy")


@pytest.fixture(scope="module")
def fast(greedy, tmp_path_factory):
    """The same on CTranslate2, with positions for the longest outputs of comparisons."""
    return fast_of(greedy, tmp_path_factory.mktemp("fast"), longest=LONG + EXTRA_LENGTH)


@pytest.fixture
def judged(greedy):
    """Returns a function that makes a translator of an engine, and the verdicts on it, by these demands."""

    def make(fast, verdicts=None, full=None, demand=EXACT):
        judge = Judge(demand, Verdicts() if verdicts is None else verdicts, questions, greedy.hparams)
        engine = FallbackEngine(fast, full or (lambda: greedy.model_engine), judge)
        return Translator(greedy.problem, greedy.model, greedy.hparams, engine=engine)

    return make


def test_the_same_network_is_taken_and_the_model_answers_once(fast, greedy, judged, caplog):
    verdicts, calls = Verdicts(), []
    counted = functools.partial(lambda: calls.append(1) or greedy.model_engine)
    asked = judged(fast.engine, verdicts, counted)
    expected = fast.translate(TEXTS)
    assert asked.translate(TEXTS) == expected != greedy.translate(TEXTS), "figures differ a little"
    assert [(one.rows, one.identical, one.near_ties) for one in verdicts.values()] == [(16, 16, 0)] * 2
    assert all(one.difference < EXACT.difference / 5 for one in verdicts.values())
    asked_once = len(calls)
    for _ in range(2):
        asked.translate(TEXTS, extra_length=3)  # a limit only cuts
        asked.score([("a", "b")])
    again = judged(fast.engine, verdicts, counted)
    assert again.translate(TEXTS) == expected
    assert again.score([("a", "b")]) == fast.score([("a", "b")])
    other_version = Verdicts()
    other_version.reference = verdicts.reference
    assert judged(fast.engine, other_version, counted).translate(TEXTS) == expected
    assert len(calls) == asked_once
    assert other_version.keys() == verdicts.keys()
    assert not [line for line in caplog.messages if "does this" in line]


# A mask that changes the longest row alone, an epsilon, weights: no other change of the network has a smaller effect.
@pytest.mark.parametrize("change", [{"self_attention_window": LONG - 2}, {"norm_epsilon": 1e-3}, {"seed": 6}], ids=str)
def test_another_network_of_the_same_shapes_is_refused(change, greedy, judged):
    """The engine is the model itself with one change, and the weights of the first."""
    other = translator_of(letters(), num_hidden_layers=1, **{k: v for k, v in change.items() if k != "seed"})
    if "seed" not in change:
        for ours, theirs in zip(other.model.variables, greedy.model.variables, strict=True):
            ours.assign(theirs)
    else:
        table = other.model.variables[0]
        table.assign(np.asarray(table) * 1.001)
    asked = judged(Wrapped(other.model_engine))
    assert asked.score([("a", "b")]) == greedy.score([("a", "b")])
    assert asked.translate(TEXTS[:2]) == greedy.translate(TEXTS[:2])
    assert judged(Wrapped(greedy.model_engine)).engine.refusal(greedy.request([[3]])) == ""


@pytest.mark.parametrize("wrong", [ReadsPadding, FindsOthers])
def test_an_engine_that_reads_padding_or_finds_other_outputs_is_refused(wrong, greedy, judged):
    verdicts = Verdicts()
    asked = judged(wrong(greedy.model_engine), verdicts)
    assert asked.translate(TEXTS) == greedy.translate(TEXTS)
    assert len(verdicts) == 1 + (wrong is FindsOthers), "a network that differs searches nothing"


def test_another_engine_is_refused_in_rounded_arithmetic_only_if_it_is_far_off(greedy, judged, tmp_path):
    rounded = fast_of(greedy, tmp_path, "int8", LONG + EXTRA_LENGTH)
    exact, about = Verdicts(), Verdicts()
    asked = judged(rounded.engine, exact)
    assert asked.score([("a", "b")]) == greedy.score([("a", "b")])
    asked = judged(rounded.engine, about, demand=Demand(0.5, 0.5))
    assert asked.score([("a", "b")]) == rounded.score([("a", "b")]) != greedy.score([("a", "b")])


def test_lists_of_outputs_are_those_of_the_model(fast, greedy, judged):
    asked = judged(fast.engine)
    for n_best in (2, 3):
        assert asked.translate(TEXTS, n_best, beam_size=3, decode_method="beam") == greedy.translate(
            TEXTS, n_best, beam_size=3, decode_method="beam"
        )


def test_near_ties_and_better_outputs_count_as_good_and_worse_ones_do_not():
    """By hand: scores of -2 tie within 0.02, those of nearly certain outputs within 0.001."""
    ours = Answers([[3], [4, 5], [6], [7], [8], [9]], [-1, -2, -2, -2, -1e-3, -1e-3], [-1, -2, -2, -2, -1, -1])
    theirs = Answers(
        [[3], [4, 5], [3], [3], [3], [3]],
        [-1, -2, -2.019, -1.5, -1.9e-3, -2.1e-3],
        [-1.25, -2.25, -3, -3, -3, -3],
    )
    found = compare_answers(ours, theirs)
    assert found == Agreement(rows=6, identical=2, near_ties=3, difference=0.25)
    assert Demand(5 / 6, 0.25).holds(found)
    assert not Demand(0.84, 0.25).holds(found)
    assert not Demand(5 / 6, 0.24).holds(found)
    assert compare_answers(ours, dataclasses.replace(theirs, scores=[-2.03] * 6)).near_ties == 0


def test_a_difference_that_is_no_number_never_holds():
    assert Demand(1.0, 1e-3).holds(Agreement(4, 4, 0, 1e-4))
    assert not Demand(1.0, 1e-3).holds(Agreement(4, 4, 0, float("nan")))
    ours = Answers([[3], [4]], [-1, -1], [-1, -1])
    assert np.isnan(compare_answers(ours, dataclasses.replace(ours, log_probs=[float("nan"), -1])).difference)


def test_more_patience_finds_the_outputs_of_the_model(ending_translator, tmp_path):
    """Of all outputs that beams keep, the model's search takes the best; CTranslate2's own rule ends too early."""
    lines = [" ".join(word) for word in ("abc", "d", "hgfedcba", "ee", "bad", "cab", "fad", "gab", "head", "deaf")]
    worse = []
    for patience in (1, 2):
        fast = fast_of(ending_translator, tmp_path / str(patience), patience=patience)
        assert ("patience" in fast.engine.name) == (patience > 1)
        for alpha in (0.6, 2.0):
            best, found = (each.translate(lines, alpha=alpha, beam_size=4) for each in (ending_translator, fast))
            worse.append(sum(one[0].score - other[0].score > 1e-4 for one, other in zip(best, found, strict=True)))
    assert worse[2] <= worse[0]
    assert worse[3] < worse[1]
