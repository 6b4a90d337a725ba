"""A fast engine handles the requests that it supports, and TensorFlow all others."""

import dataclasses
import logging

import pytest

from t2t.inference.fallback import TRIAL_ROWS, Agreement, Demand, FallbackEngine
from t2t.inference.translator import Translator
from tests.letters import TEXTS, letters, translator_of
from tests.unit.inference.ctranslate2.test_inference_ctranslate2_engine import fast_of

STRICT = Demand(1.0, 1e-3)


@pytest.fixture
def translator():
    return translator_of(letters(), decoding={"decode_method": "greedy"})


def with_fallback(translator, fast, demand=None, trials=None):
    engine = FallbackEngine(fast.engine, lambda: translator.model_engine, demand, trials)
    return Translator(translator.problem, translator.model, translator.hparams, engine=engine)


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"decode_method": "sample", "seed": 3}, "it draws random numbers of its own"),
        ({"decode_method": "beam", "coverage_penalty": 0.2}, "it has another coverage penalty"),
        ({"extra_length": 100}, "extra_length=100: it was given 40 positions"),
    ],
)
def test_what_it_cannot_do_as_asked_tensorflow_does_and_says_so_once(changes, reason, translator, tmp_path, caplog):
    asked = with_fallback(translator, fast_of(translator, tmp_path))
    for _ in range(2):
        assert asked.translate(TEXTS, **changes) == translator.translate(TEXTS, **changes)
    (line,) = [record.message for record in caplog.records if "TensorFlow does this" in record.message]
    assert reason in line
    assert line.startswith("CTranslate2 ")


def test_what_it_cannot_do_is_warmed_up_in_tensorflow(translator, tmp_path, monkeypatch):
    fast, warmed = fast_of(translator, tmp_path), []
    for name, engine in (("fast", fast.engine), ("full", translator.model_engine)):
        monkeypatch.setattr(engine, "warm_up", lambda *what, name=name: warmed.append(name))
    with_fallback(translator, fast).warm_up([[3, 4]])
    translator.hparams = dataclasses.replace(translator.hparams, decode_method="sample")
    with_fallback(translator, fast).warm_up([[3, 4]])
    assert warmed == ["fast", "full"]


def test_pairs_longer_than_its_positions_are_scored_by_tensorflow(translator, tmp_path, caplog):
    pairs = [("a b", "a " * 50)]
    asked = with_fallback(translator, fast_of(translator, tmp_path))
    assert asked.score(pairs) == translator.score(pairs)
    assert "51 ids: it was given 40 positions; TensorFlow does this" in caplog.text


def test_an_engine_that_agrees_is_taken(translator, tmp_path, caplog):
    caplog.set_level(logging.INFO, "t2t")
    fast = fast_of(translator, tmp_path)
    trials = {}

    class Kept(dict):
        set = trials.__setitem__
        get = trials.get

    asked = with_fallback(translator, fast, STRICT, Kept())
    lines = TEXTS * 5
    assert asked.translate(lines) == fast.translate(lines) != translator.translate(lines), "figures differ a little"
    assert asked.score([("a", "b")]) == fast.score([("a", "b")])
    assert [(one.rows, one.identical) for one in trials.values()] == [(TRIAL_ROWS, TRIAL_ROWS), (1, 1)]
    assert caplog.text.count("16 of 16 outputs are equal") == 1
    asked.translate(lines)
    assert len(trials) == 2, "one for each way to ask"
    asked.translate(lines, extra_length=3)
    assert len(trials) == 2, "a limit only cuts"


def test_a_trial_of_few_rows_is_made_again_with_more(translator, tmp_path):
    trials = {}

    class Kept(dict):
        set = trials.__setitem__
        get = trials.get

    asked = with_fallback(translator, fast_of(translator, tmp_path), STRICT, Kept())
    rows = []
    for lines in (TEXTS[:1], TEXTS[1:2], TEXTS, TEXTS * 5, TEXTS):
        asked.translate(lines)
        rows += [trial.rows for trial in trials.values()]
    assert rows == [1, 1, 6, TRIAL_ROWS, TRIAL_ROWS]


def test_an_engine_that_disagrees_is_not_taken(translator, tmp_path, caplog):
    other = translator_of(letters(), decoding={"decode_method": "greedy"}, norm_epsilon=0.5)
    asked = with_fallback(translator, fast_of(other, tmp_path), STRICT)
    assert asked.translate(TEXTS) == translator.translate(TEXTS)
    assert asked.score([("a", "b")]) == translator.score([("a", "b")])
    assert "outputs are equal, by up to" in caplog.text
    assert caplog.text.count("TensorFlow does this") == 2


def test_a_difference_that_is_no_number_never_holds():
    assert STRICT.holds(Agreement(4, 4, 1e-4))
    assert not STRICT.holds(Agreement(4, 3, 0.0))
    assert not STRICT.holds(Agreement(4, 4, float("nan")))


def test_resuming_a_file_is_of_one_engine(translator, tmp_path):
    fast, rounded = fast_of(translator, tmp_path), fast_of(translator, tmp_path, "int8")
    assert len({one.fingerprint() for one in (translator, fast, rounded, with_fallback(translator, fast))}) == 3
