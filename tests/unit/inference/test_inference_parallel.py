"""Parallel jobs: each is done once, on one device, and one failure ends all."""

import threading
import time

import pytest

from t2t.inference.parallel import CPU_QUEUE, GPU_QUEUE, Jobs, Sharing, batch_share, queues_of
from t2t.training.tensorflow.distribute import build_strategy
from tests.builders import tiny_transformer
from tests.waiting import LIMIT_S, join_all, start_thread


@pytest.fixture(scope="module")
def model():
    return tiny_transformer(num_hidden_layers=1)


@pytest.fixture(params=[1, 2])
def jobs(request, model):
    """Jobs of a model on one logical CPU device, or on two."""
    if request.param == 1:
        return Jobs(model)
    with build_strategy(worker_cpu=2).scope():
        return Jobs(tiny_transformer(num_hidden_layers=1))


def test_jobs_run_in_parallel_and_their_items_all_come(jobs):
    both_are_here = threading.Barrier(2, timeout=LIMIT_S)

    def work(job):
        both_are_here.wait()
        yield job
        yield job * job

    assert sorted(jobs.run(work, [2, 3, 4, 5], at_a_time=2)) == sorted([2, 4, 3, 9, 4, 16, 5, 25])


def test_one_job_at_a_time_is_done_on_a_device(model):
    running, most = [], []

    def work(job):
        running.append(job)
        most.append(len(running))
        yield job
        running.remove(job)

    assert sorted(Jobs(model).run(work, range(5))) == list(range(5))
    assert max(most) == 1


@pytest.mark.parametrize("at_a_time", [1, 2])
def test_a_failing_job_fails_the_whole_and_later_ones_are_not_begun(model, at_a_time):
    begun, failed = [], threading.Event()

    def work(job):
        begun.append(job)
        if job == 2:
            failed.set()
            raise ValueError("two")
        assert failed.wait(LIMIT_S)
        time.sleep(0.01)  # all jobs take half a minute, which is longer than noticing the failure
        yield job

    with pytest.raises(ValueError, match="two"):
        list(Jobs(model).run(work, range(2, 3000), at_a_time))
    assert len(begun) < 2998


def test_jobs_are_stopped_between_two_items_where_nobody_wants_more(model):
    """An item each may be on its way when the reader stops."""
    done, stopped = [], threading.Event()

    def work(job):
        yield job
        assert stopped.wait(LIMIT_S)
        for item in range(1_000_000):
            done.append(item)
            yield item

    items = Jobs(model).run(work, [1, 2], at_a_time=2)
    next(items)
    closing = start_thread(items.close)
    stopped.set()
    join_all(closing)
    assert len(done) < 2_000_000


def test_workers_have_the_items_of_all(model):
    """Three workers in three threads: each does its own jobs and receives the items of all."""
    turn, sent = threading.Barrier(3, timeout=LIMIT_S), [b""] * 3
    done = [[] for _ in range(3)]
    found = [None] * 3

    def be_worker(index):
        def exchange(items):
            sent[index] = items
            turn.wait()
            return list(sent)

        def work(job):
            done[index].append(job)
            yield job, job / 3

        found[index] = list(Jobs(model, Sharing(index, 3, exchange)).run(work, range(8)))

    join_all(*[start_thread(be_worker, index) for index in range(3)])
    assert done == [[0, 3, 6], [1, 4, 7], [2, 5]]
    assert found[0] == found[1] == found[2]
    assert sorted(found[0]) == [(job, job / 3) for job in range(8)]


@pytest.mark.parametrize(("ids", "share"), [(10_000, 1000), (2001, 501), (300, 256)])
def test_every_core_gets_a_batch_of_what_is_worth_dividing(ids, share):
    assert batch_share(ids, 1000, searches=4) == share


def test_queues_are_of_equal_work_and_no_more_than_pay():
    assert queues_of([9], 2, CPU_QUEUE) == [[9]]
    assert queues_of([9, 8, 7], 2, CPU_QUEUE) == [[9, 7], [8]]
    for count, most, sizes in (
        (33, CPU_QUEUE, [17, 16]),
        (50, CPU_QUEUE, [17, 17, 16]),
        (50, GPU_QUEUE, [5, 5, *[4] * 10]),
    ):
        assert [len(queue) for queue in queues_of(list(range(count)), 2, most)] == sizes
