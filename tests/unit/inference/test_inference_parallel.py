"""Parallel jobs: each is done once, on one device, and one failure ends all."""

import threading
import time

import pytest

from t2t.inference import parallel
from t2t.inference.backend_choice import inference_backend
from t2t.inference.parallel import Jobs, Sharing
from t2t.training.tensorflow.distribute import build_strategy
from tests.builders import tiny_transformer


def jobs_of(devices, sharing=None):
    """Jobs of a model on logical CPU devices."""
    with build_strategy(worker_cpu=devices).scope():
        return Jobs(tiny_transformer(), sharing)


@pytest.mark.parametrize("devices", [1, 2])
def test_jobs_run_in_parallel_and_their_items_all_come(devices):
    both_are_here = threading.Barrier(2, timeout=600)

    def work(job):
        both_are_here.wait()
        yield job
        yield job * job

    assert sorted(jobs_of(devices).run(work, [2, 3, 4, 5], at_a_time=2)) == sorted([2, 4, 3, 9, 4, 16, 5, 25])


def test_one_job_at_a_time_is_done_on_a_device():
    running, most = [], []

    def work(job):
        running.append(job)
        most.append(len(running))
        yield job
        running.remove(job)

    assert sorted(jobs_of(1).run(work, range(5))) == list(range(5))
    assert max(most) == 1


@pytest.mark.parametrize("at_a_time", [1, 2])
def test_a_failing_job_fails_the_whole_and_later_ones_are_not_begun(at_a_time):
    begun = []

    def work(job):
        begun.append(job)
        if job == 2:
            raise ValueError("two")
        time.sleep(0.01)  # a thousand jobs take longer than noticing the failure
        yield job

    with pytest.raises(ValueError, match="two"):
        list(jobs_of(1).run(work, range(2, 1000), at_a_time))
    assert len(begun) < 998


def test_jobs_are_stopped_between_two_items_where_nobody_wants_more():
    done = []

    def work(job):
        for item in range(1_000):
            time.sleep(0.01)  # lets the other thread run
            done.append(item)
            yield item

    items = jobs_of(1).run(work, [1, 2], at_a_time=2)
    next(items)
    items.close()
    assert len(done) < 2_000


def test_workers_have_the_items_of_all():
    """Three workers in three threads: each does its own jobs and receives the items of all."""
    turn, sent = threading.Barrier(3, timeout=600), [b""] * 3
    done = [[] for _ in range(3)]
    found = [None] * 3

    def exchange_of(index):
        def exchange(items):
            sent[index] = items
            turn.wait()
            return list(sent)

        return exchange

    def be_worker(index):
        def work(job):
            done[index].append(job)
            yield job, job / 3

        found[index] = list(jobs[index].run(work, range(8)))

    jobs = [jobs_of(1, Sharing(index, 3, exchange_of(index))) for index in range(3)]
    workers = [threading.Thread(target=be_worker, args=(index,)) for index in range(3)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert done == [[0, 3, 6], [1, 4, 7], [2, 5]]
    assert found[0] == found[1] == found[2]
    assert sorted(found[0]) == [(job, job / 3) for job in range(8)]


def test_every_core_gets_a_batch_of_what_is_worth_dividing(monkeypatch):
    monkeypatch.setattr(parallel, "cores", lambda: 4)
    assert parallel.batch_share(10_000, 1000) == 1000
    assert parallel.batch_share(2001, 1000) == 501
    assert parallel.batch_share(300, 1000) == 256


def test_queues_are_of_equal_work_and_no_more_than_pay(monkeypatch):
    monkeypatch.setattr(parallel, "cores", lambda: 2)
    assert parallel.queues_of([9]) == [[9]]
    assert parallel.queues_of([9, 8, 7]) == [[9, 7], [8]]
    assert [len(queue) for queue in parallel.queues_of(list(range(33)))] == [17, 16]
    assert [len(queue) for queue in parallel.queues_of(list(range(50)))] == [17, 17, 16]
    monkeypatch.setattr(type(inference_backend()), "on_accelerators", lambda self: True)
    assert [len(queue) for queue in parallel.queues_of(list(range(50)))] == [5, 5, *[4] * 10]
