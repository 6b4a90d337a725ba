"""A fast engine handles the requests that it supports, and TensorFlow all others."""

import logging

import pytest

from t2t.inference.fallback import TRIAL_ROWS, Agreement, Demand, FallbackEngine
from t2t.inference.translator import Translator
from tests.letters import TEXTS, fast_of, letters, sharing, translator_of

STRICT = Demand(1.0, 1e-3)


@pytest.fixture(scope="module")
def translator(letters_translator):
    return sharing(letters_translator, decode_method="greedy")


@pytest.fixture(scope="module")
def fast(letters_fast):
    return sharing(letters_fast, decode_method="greedy")


class Trials(dict):
    """Keeps the results of trials."""

    set = dict.__setitem__


def with_fallback(translator, fast, demand=None, trials=None):
    engine = FallbackEngine(fast.engine, lambda: translator.model_engine, demand, trials)
    return Translator(translator.problem, translator.model, translator.hparams, engine=engine)


@pytest.mark.parametrize(
    ("changes", "about"),
    [
        ({"decode_method": "sample", "seed": 3}, []),
        ({"decode_method": "beam", "coverage_penalty": 0.2}, []),
        ({"extra_length": 100}, ["extra_length=100", "40"]),
    ],
)
def test_what_it_cannot_do_as_asked_tensorflow_does_and_says_so_once(changes, about, translator, fast, caplog):
    asked = with_fallback(translator, fast)
    for _ in range(2):
        assert asked.translate(TEXTS, **changes) == translator.translate(TEXTS, **changes)
    (line,) = caplog.messages
    assert all(word in line for word in ("CTranslate2", "TensorFlow", *about))


@pytest.mark.parametrize(("method", "full"), [("greedy", False), ("sample", True)])
def test_what_it_cannot_do_is_warmed_up_in_tensorflow(translator, fast, method, full):
    asked_full = []
    engine = FallbackEngine(fast.engine, lambda: asked_full.append(True) or translator.model_engine)
    hparams = sharing(translator, decode_method=method).hparams
    Translator(translator.problem, translator.model, hparams, engine=engine).warm_up([[3, 4]])
    assert asked_full == [True] * full


def test_pairs_longer_than_its_positions_are_scored_by_tensorflow(translator, fast, caplog):
    pairs = [("a b", "a " * 50)]
    assert with_fallback(translator, fast).score(pairs) == translator.score(pairs)
    (line,) = caplog.messages
    assert all(word in line for word in ("51", "40", "TensorFlow"))


def test_an_engine_that_agrees_is_taken(translator, fast, caplog):
    caplog.set_level(logging.INFO, "t2t")
    trials = Trials()
    asked = with_fallback(translator, fast, STRICT, trials)
    lines = TEXTS * 5
    assert asked.translate(lines) == fast.translate(lines) != translator.translate(lines), "figures differ a little"
    assert asked.score([("a", "b")]) == fast.score([("a", "b")])
    assert [(one.rows, one.identical) for one in trials.values()] == [(TRIAL_ROWS, TRIAL_ROWS), (1, 1)]
    assert caplog.text.count("16 of 16") == 1
    asked.translate(lines)
    assert len(trials) == 2, "one for each way to ask"
    asked.translate(lines, extra_length=3)
    assert len(trials) == 2, "a limit only cuts"


def test_a_trial_of_few_rows_is_made_again_with_more(translator, fast):
    trials, rows = Trials(), []
    asked = with_fallback(translator, fast, STRICT, trials)
    for lines in (TEXTS[:1], TEXTS[1:2], TEXTS, TEXTS * 5, TEXTS):
        asked.translate(lines)
        rows += [trial.rows for trial in trials.values()]
    assert rows == [1, 1, 6, TRIAL_ROWS, TRIAL_ROWS]


def test_an_engine_that_disagrees_is_not_taken(translator, tmp_path, caplog):
    other = translator_of(letters(), decoding={"decode_method": "greedy"}, norm_epsilon=0.5)
    asked = with_fallback(translator, fast_of(other, tmp_path), STRICT)
    assert asked.translate(TEXTS) == translator.translate(TEXTS)
    assert asked.score([("a", "b")]) == translator.score([("a", "b")])
    assert len([line for line in caplog.messages if "CTranslate2" in line and "TensorFlow" in line]) == 2


def test_a_difference_that_is_no_number_never_holds():
    assert STRICT.holds(Agreement(4, 4, 1e-4))
    assert not STRICT.holds(Agreement(4, 3, 0.0))
    assert not STRICT.holds(Agreement(4, 4, float("nan")))


def test_resuming_a_file_is_of_one_engine(translator, fast, tmp_path):
    rounded = fast_of(translator, tmp_path, "int8")
    assert len({one.fingerprint() for one in (translator, fast, rounded, with_fallback(translator, fast))}) == 3
