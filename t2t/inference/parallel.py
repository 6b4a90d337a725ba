"""Several batches at a time: small models leave the other cores idle within one."""

import os
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

import tensorflow as tf

MOST_WORKERS = 4
"""Batches searched at a time: each has its caches in memory."""

Job = TypeVar("Job")


def side_by_side(work: Callable[[Job], Any], jobs: Sequence[Job]) -> Iterator[tuple[Job, Any]]:
    """Yields each job with its result, in order; as many run at a time as there are cores, up to MOST_WORKERS.

    What a job gives must not depend on the others: then the results are the same however many run at a time.
    """
    count = min(len(jobs), workers())
    if count <= 1:
        yield from ((job, work(job)) for job in jobs)
        return
    pool = ThreadPoolExecutor(count, "decoding")
    try:
        yield from zip(jobs, pool.map(work, jobs), strict=True)
    finally:
        pool.shutdown(cancel_futures=True)


def workers() -> int:
    """Returns how many batches are searched at a time; one on a GPU, which a batch keeps busy."""
    return 1 if tf.config.list_logical_devices("GPU") else min(MOST_WORKERS, len(os.sched_getaffinity(0)))
