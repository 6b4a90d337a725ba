"""Runs independent jobs in parallel: on several devices, or on the cores of a processor, of one worker or several.

A small model leaves cores idle within one batch. Jobs do not depend on how many devices or workers there are, and so
their results do not either.
"""

import contextlib
import dataclasses
import pickle
import queue
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TypeVar

from t2t.backends import backend
from t2t.files.processor import available_cores
from t2t.models.base import SequenceModel

MOST_CORES = 4
"""Maximum number of batches searched in parallel on a processor; each keeps its caches in memory."""

SMALLEST_SHARE = 256
"""Batches of at most this many ids are not divided."""

GPU_QUEUE, CPU_QUEUE = 4, 16
"""Batches per queue. Unfinished sentences of a queue are joined, so only its end has small batches. Shorter queues on
GPUs give every device some."""

Job = TypeVar("Job")
Item = TypeVar("Item")


@dataclasses.dataclass(frozen=True)
class Sharing:
    """The workers that share jobs."""

    index: int
    """Of this worker, from 0."""
    count: int
    exchange: Callable[[bytes], list[bytes]]
    """Sends this worker's bytes to all workers; returns those of all, in the order of their indices."""


class Jobs:
    """Runs jobs that need a model, on all devices with a copy of its weights.

    Args:
        model: with its weights.
        sharing: the workers that divide the jobs among them; all must call `run` with the same jobs.
    """

    def __init__(self, model: SequenceModel, sharing: Sharing | None = None):
        self.devices, self._sharing = backend().devices_of(model), sharing

    @property
    def searches(self) -> int:
        """How many searches run in parallel in this process: one on each device, or one on each core."""
        return max(len(self.devices), cores())

    def run(self, work: Callable[[Job], Iterable[Item]], jobs: Sequence[Job], at_a_time: int = 0) -> Iterator[Item]:
        """Yields the items of `work(job)` for every job; jobs finish in any order.

        Args:
            work: is called in threads.
            jobs: all jobs, of which other workers run some.
            at_a_time: jobs in this process; 0 = one on each device.
        """
        sharing = self._sharing
        if sharing is None:
            yield from self.run_alone(work, jobs, at_a_time)
            return
        own = list(self.run_alone(work, jobs[sharing.index :: sharing.count], at_a_time))
        for items in sharing.exchange(pickle.dumps(own)):  # trusted: from processes of the same run
            yield from pickle.loads(items)

    def run_alone(
        self, work: Callable[[Job], Iterable[Item]], jobs: Sequence[Job], at_a_time: int = 0
    ) -> Iterator[Item]:
        """As `run`, but runs all jobs in this process, without other workers."""
        threads = min(len(jobs), at_a_time or len(self.devices))
        if threads <= 1:
            for job in jobs:
                yield from work(job)
            return
        free: queue.SimpleQueue[int] = queue.SimpleQueue()
        for thread in range(threads):
            free.put(thread % len(self.devices))
        found: queue.SimpleQueue[Item | Future] = queue.SimpleQueue()
        stopped = False

        def run_job(job: Job) -> None:
            device = free.get()
            with contextlib.ExitStack() as stack:
                stack.callback(free.put, device)
                stack.enter_context(backend().use_device(device, self.devices[device]))
                for item in work(job):
                    found.put(item)
                    if stopped:
                        return

        with ThreadPoolExecutor(threads, "decoding") as pool:
            for job in jobs:
                pool.submit(run_job, job).add_done_callback(found.put)
            try:
                running = len(jobs)
                while running:
                    item = found.get()
                    if isinstance(item, Future):
                        item.result()  # raises what the job raised
                        running -= 1
                    else:
                        yield item
            finally:
                stopped = True
                pool.shutdown(cancel_futures=True)


def cores() -> int:
    """Returns how many batches are searched in parallel on a processor; 1 on an accelerator, which one keeps busy."""
    return 1 if backend().on_accelerators() else min(MOST_CORES, available_cores())


def use_single_core_ops() -> None:
    """Makes TensorFlow run each operation on one core, which is faster with parallel batches.

    This holds for the whole process, so a command calls it before TensorFlow starts. Nothing changes where batches run
    one by one.
    """
    if cores() > 1:
        backend().use_single_core_ops()


def batch_share(ids: int, largest: int, searches: int | None = None) -> int:
    """Returns the size of batches, in ids, with which every core gets one.

    Args:
        ids: number of ids in all.
        largest: maximum ids of a batch.
        searches: how many run in parallel; None for `cores`.
    """
    return min(largest, max(SMALLEST_SHARE, -(-ids // (searches or cores()))))


def queues_of(batches: Sequence[Job], searches: int | None = None, most: int | None = None) -> list[Sequence[Job]]:
    """Divides batches, the longest first, into queues of about equal work: at least one for each search.

    Args:
        batches: any.
        searches: how many run in parallel; None for `cores`.
        most: batches per queue; None for what suits the devices.
    """
    if most is None:
        most = GPU_QUEUE if backend().on_accelerators() else CPU_QUEUE
    count = max(min(searches or cores(), len(batches)), len(batches) // most)
    return [batches[number::count] for number in range(count)]
