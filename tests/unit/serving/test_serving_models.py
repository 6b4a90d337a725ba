"""A served model: warm-up within a time limit, and answers from all of its devices."""

import math
import threading
import types

import numpy as np
import pytest

from t2t.inference import model_engine
from t2t.inference.tensorflow import devices
from t2t.serving import models
from t2t.serving.models import WARM_UP_LENGTHS, BatchLimits, ServedModel
from t2t.training.tensorflow.distribute import build_strategy
from tests.letters import TEXTS, letters, letters_alone, translator_of

# === Warm-up ===


class Clock:
    """A fake clock that advances by a second at each reading."""

    def __init__(self):
        self.now = 0.0

    def __call__(self):
        self.now += 1.0
        return self.now


@pytest.fixture
def decoded(monkeypatch):
    """Returns a function that records the shapes of a translator's warm-up batches in a list."""

    def watch(translator):
        sizes, warm_up = [], translator.warm_up
        monkeypatch.setattr(
            translator, "warm_up", lambda ids, *more: (sizes.append(np.shape(ids)), warm_up(ids, *more))[1]
        )
        return sizes

    return watch


@pytest.mark.parametrize("problem", [letters, letters_alone])
def test_one_and_a_full_batch_of_each_length_are_decoded(monkeypatch, decoded, problem):
    monkeypatch.setattr(models, "WARM_UP_SECONDS", math.inf)
    translator = translator_of(problem(), decoding={"max_input_length": 20})
    sizes = decoded(translator)
    ServedModel("letters", translator, 1, limits=BatchLimits(most_texts=3)).warm_up()
    assert sizes == [(count, length) for count in (1, 3) for length in (4, 16, 19)]


def test_what_requests_need_is_compiled(monkeypatch):
    monkeypatch.setattr(models, "WARM_UP_SECONDS", 0.0)
    translator = translator_of(letters())
    model = ServedModel("letters", translator, 1, n_best=2)
    model.warm_up()
    monkeypatch.setattr(model_engine, "build_search", None)
    assert len(model.answer(model.questions(["a"]))[0].hypotheses) == 2


@pytest.mark.parametrize(("seconds", "count"), [(0.0, 1), (2.0, 2), (1000.0, 2 * len(WARM_UP_LENGTHS))])
def test_nothing_more_is_decoded_after_the_time(monkeypatch, decoded, seconds, count):
    monkeypatch.setattr(models, "WARM_UP_SECONDS", seconds)
    monkeypatch.setattr(models, "time", types.SimpleNamespace(monotonic=Clock()))
    translator = translator_of(letters())
    sizes = decoded(translator)
    ServedModel("letters", translator, 1).warm_up()
    assert len(sizes) == count


# === Devices ===


def model_on(count):
    with build_strategy(worker_cpu=count).scope():
        return ServedModel("letters", translator_of(letters()), 1, limits=BatchLimits(most_texts=2, wait_s=0.0))


def test_answers_do_not_depend_on_the_number_of_devices(monkeypatch):
    """Two batches are searched at the same time, one on each device."""
    one, two = model_on(1), model_on(2)
    expected = one.answer(one.questions(TEXTS[:4]))
    used, both_are_here = [], threading.Barrier(2, timeout=300)
    answer = two.answer

    def answer_together(questions):
        used.append(devices._current.get())
        both_are_here.wait()
        return answer(questions)

    monkeypatch.setattr(two, "answer", answer_together)
    found = [future.result(300) for future in two.queue.submit(two.questions(TEXTS[:4]))]
    assert sorted(used) == [0, 1]
    assert [[one.ids for one in row.hypotheses] for row in found] == [
        [one.ids for one in row.hypotheses] for row in expected
    ]
    for model in (one, two):
        model.queue.close()


def test_answers_are_streamed_on_each_device_in_turn():
    model = model_on(2)
    (question,) = model.questions(["a b c"], 1, {"beam_size": 1})
    (answer,) = model.answer([question])
    for _ in range(3):
        last = list(model.stream(question))[-1]
        assert (last.texts, last.answer.hypotheses[0].ids) == ([answer.hypotheses[0].text], answer.hypotheses[0].ids)
    model.queue.close()


def test_each_device_is_warmed_up(monkeypatch, decoded):
    monkeypatch.setattr(models, "WARM_UP_SECONDS", 0.0)
    model = model_on(2)
    sizes = decoded(model.translator)
    model.warm_up()
    assert sizes == [(1, 4), (1, 4)]
