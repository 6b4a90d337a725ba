"""A served model: warm-up within a time limit, and answers from all of its devices."""

import math
import threading
import time

import numpy as np
import pytest

from t2t.inference.tensorflow import devices
from t2t.serving.models import WARM_UP_LENGTHS, BatchLimits, ServedModel
from t2t.training.tensorflow.distribute import build_strategy
from tests.letters import TEXTS, letters, letters_alone, translator_of
from tests.unit.serving.conftest import various
from tests.waiting import LIMIT_S

# === Warm-up ===


class Watched:
    """A translator that notes the shapes of warm-up batches, and decodes none."""

    def __init__(self, translator, seconds=0.0):
        self._translator, self._seconds, self.sizes = translator, seconds, []

    def __getattr__(self, name):
        return getattr(self._translator, name)

    def warm_up(self, ids, n_best):
        self.sizes.append(np.shape(ids))
        time.sleep(self._seconds)


@pytest.mark.parametrize("problem", [letters, letters_alone])
def test_one_and_a_full_batch_of_each_length_are_decoded(problem):
    watched = Watched(translator_of(problem(), decoding={"max_input_length": 20}))
    ServedModel("letters", watched, 1, limits=BatchLimits(most_texts=3)).warm_up(math.inf)
    assert watched.sizes == [(count, length) for count in (1, 3) for length in (4, 16, 19)]


def test_nothing_more_is_decoded_after_the_time(translator):
    for seconds, most in ((0.0, 1), (0.3, 2)):
        watched = Watched(translator, seconds=0.2)
        ServedModel("letters", watched, 1).warm_up(seconds)
        assert 1 <= len(watched.sizes) <= most < 2 * len(WARM_UP_LENGTHS)


def test_what_requests_need_is_compiled():
    translator = translator_of(letters(), num_hidden_layers=1)
    model = ServedModel("letters", translator, 1, n_best=2)
    model.warm_up(0.0)
    compiled = list(translator.model_engine._searches.values())
    assert len(model.answer(model.questions(["a"]))[0].hypotheses) == 2
    assert list(translator.model_engine._searches.values()) == compiled


# === Devices ===


class Together(ServedModel):
    """A model that answers two batches at a time, and notes the devices."""

    def answer(self, questions):
        self.used.append(devices._current.get())
        self.both_are_here.wait()
        return super().answer(questions)


@pytest.fixture(scope="module")
def on_two():
    """A model on two devices."""
    limits = BatchLimits(most_texts=2, wait_s=0.0)
    with build_strategy(worker_cpu=2).scope():
        model = Together("letters", various(letters()), 1, limits=limits)
    model.used, model.both_are_here = [], threading.Barrier(2, timeout=LIMIT_S)
    yield model
    model.queue.close()


def ids_of(answers):
    return [[one.ids for one in row.hypotheses] for row in answers]


def test_answers_do_not_depend_on_the_number_of_devices(on_two, translator):
    """Two batches are searched at the same time, one on each device."""
    one = ServedModel("letters", translator, 1)
    expected = one.answer(one.questions(TEXTS[:4]))
    found = [future.result(LIMIT_S) for future in on_two.queue.submit(on_two.questions(TEXTS[:4]))]
    assert sorted(on_two.used) == [0, 1]
    assert ids_of(found) == ids_of(expected)


def test_answers_are_streamed_on_each_device_in_turn(on_two):
    (question,) = on_two.questions(["a b c"])
    (answer,) = ServedModel.answer(on_two, [question])
    for _ in range(3):
        last = list(on_two.stream(question))[-1]
        assert last.texts == [answer.hypotheses[0].text]
        assert ids_of([last.answer]) == ids_of([answer])


def test_each_device_is_warmed_up(on_two):
    watched = Watched(on_two.translator)
    model = ServedModel("letters", watched, 1)
    model.warm_up(0.0)
    assert watched.sizes == [(1, 4), (1, 4)]
    model.queue.close()
