"""Served models: waiting requests in batches, warm-up within a time limit, answers from all devices."""

import math
import threading
import time
from concurrent.futures import CancelledError

import numpy as np
import pytest

from t2t.backends.tensorflow import functions
from t2t.backends.tensorflow.devices import build_strategy
from t2t.serving.models import WARM_UP_LENGTHS, Batcher, BatchLimits, FullError, ServedModel
from t2t.serving.requests import Query
from tests.errors import refused
from tests.letters import TEXTS, letters, letters_alone, translator_of
from tests.unit.serving.conftest import various
from tests.waiting import LIMIT_S, join_all, start_thread


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
    assert len(model.answer(model.questions(Query(texts=["a"])))[0].hypotheses) == 2
    assert list(translator.model_engine._searches.values()) == compiled


# === Devices ===
class Together(ServedModel):
    """A model that answers two batches at a time, and notes the devices."""

    def answer(self, questions):
        self.used.append(functions.current_copy.get())
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
    expected = one.answer(one.questions(Query(texts=TEXTS[:4])))
    found = [future.result(LIMIT_S) for future in on_two.queue.submit(on_two.questions(Query(texts=TEXTS[:4])))]
    assert sorted(on_two.used) == [0, 1]
    assert ids_of(found) == ids_of(expected)


def test_answers_are_streamed_on_each_device_in_turn(on_two):
    (question,) = on_two.questions(Query(texts=["a b c"]))
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


# === Waiting requests are processed in batches, in order, once; the queue is bounded ===
class Answers:
    """Doubles numbers; blocks each batch until it is released."""

    def __init__(self, held=False):
        self.batches, self.gate, self.begun = [], threading.Event(), threading.Semaphore(0)
        if not held:
            self.gate.set()

    def __call__(self, items):
        self.batches.append(list(items))
        self.begun.release()
        assert self.gate.wait(LIMIT_S)
        if "bad" in items:
            raise ValueError("bad item")
        return [2 * item for item in items]


@pytest.fixture
def batcher(request):
    made = []

    def make(answer, **changes):
        made.append(Batcher(answer, **{"most": 4, "wait_s": 0.0, "room": 100, **changes}))
        return made[-1]

    yield make
    for one in made:
        one.close(LIMIT_S)  # the answer of a test that failed may never come


def test_what_comes_while_others_are_answered_is_one_batch_without_what_is_cancelled(batcher):
    answers = Answers(held=True)
    queue = batcher(answers)
    first = queue.submit([1])
    assert answers.begun.acquire(timeout=LIMIT_S)
    later = [future for item in range(2, 8) for future in queue.submit([item])]
    dropped = later.pop(1)
    assert dropped.cancel()
    assert queue.waiting == 6
    answers.gate.set()
    assert [future.result(LIMIT_S) for future in first + later] == [2, 4, 8, 10, 12, 14]
    assert answers.batches == [[1], [2, 4, 5], [6, 7]]
    with pytest.raises(CancelledError):
        dropped.result(1)


def test_a_batch_waits_for_others_but_not_when_it_is_full_and_an_item_alone_not_for_ever(batcher):
    answers = Answers()
    queue = batcher(answers, wait_s=600.0)
    first = queue.submit([1, 2])
    assert not answers.begun.acquire(timeout=0.3)
    assert [future.result(LIMIT_S) for future in first + queue.submit([3, 4])] == [2, 4, 6, 8]
    assert answers.batches == [[1, 2, 3, 4]]
    assert batcher(Answers(), wait_s=0.05).submit([5])[0].result(LIMIT_S) == 10


def test_a_batch_has_items_of_one_group_and_is_answered_before_the_next_begins(batcher):
    answers = Answers(held=True)
    queue = batcher(answers, group=lambda item: item % 2)
    first = queue.submit([1])
    assert answers.begun.acquire(timeout=LIMIT_S)
    later = queue.submit([2, 3, 4, 5, 6, 8, 10])
    answers.gate.set()
    assert [future.result(LIMIT_S) for future in first + later] == [2, 4, 6, 8, 10, 12, 16, 20]
    assert answers.batches == [[1], [2, 4, 6, 8], [3, 5], [10]]


def test_more_than_there_is_room_for_is_refused_whole(batcher):
    answers = Answers(held=True)
    queue = batcher(answers, room=3)
    queue.submit([1])
    assert answers.begun.acquire(timeout=LIMIT_S)
    kept = queue.submit([2, 3])
    with refused("2", "3", by=FullError):
        queue.submit([4, 5])
    answers.gate.set()
    assert [future.result(LIMIT_S) for future in kept] == [4, 6]
    assert answers.batches == [[1], [2, 3]]


def test_an_error_goes_to_the_item_that_causes_it_alone_and_the_thread_goes_on(batcher):
    answers = Answers(held=True)
    queue = batcher(answers)
    first = queue.submit([1])
    assert answers.begun.acquire(timeout=LIMIT_S)
    bad, good = queue.submit(["bad", 2])
    answers.gate.set()
    with refused("bad", by=ValueError):
        bad.result(LIMIT_S)
    assert [future.result(LIMIT_S) for future in (*first, good, *queue.submit([3]))] == [2, 4, 6]
    queue = batcher(lambda items: items[1:] if 0 in items else items)
    with refused("0", "1", by=RuntimeError):
        queue.submit([0])[0].result(LIMIT_S)
    assert queue.submit([3])[0].result(LIMIT_S) == 3


def test_closing_answers_what_waits_and_takes_no_more(batcher):
    answers = Answers(held=True)
    queue = batcher(answers, wait_s=60.0, most=2)
    futures = queue.submit([1, 2, 3])
    answers.gate.set()
    queue.close()
    assert [future.result(0) for future in futures] == [2, 4, 6]
    with pytest.raises(FullError):
        queue.submit([4])


def test_many_threads_lose_nothing(batcher):
    queue = batcher(Answers(), most=7, room=10_000, wait_s=0.001)
    found = {}

    def ask(start):
        futures = [(item, queue.submit([item])[0]) for item in range(start, start + 200)]
        found.update({item: future.result(LIMIT_S) for item, future in futures})

    join_all(*[start_thread(ask, 200 * i) for i in range(8)])
    assert found == {item: 2 * item for item in range(1600)}


def test_several_threads_answer_as_many_batches_at_a_time(batcher):
    answers = Answers(held=True)
    queue = batcher(answers, threads=2, most=2)
    futures = queue.submit([1, 2, 3, 4, 5])
    for _ in range(2):
        assert answers.begun.acquire(timeout=LIMIT_S)
    assert (sorted(answers.batches), queue.waiting) == ([[1, 2], [3, 4]], 1)
    answers.gate.set()
    assert [future.result(LIMIT_S) for future in futures] == [2, 4, 6, 8, 10]
