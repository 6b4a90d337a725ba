"""Decodes several batches in parallel: a small model leaves cores idle within one."""

import contextlib
import os
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

import tensorflow as tf

MOST_WORKERS = 4
"""Batches searched at a time: each has its caches in memory."""

SMALLEST_SHARE = 256
"""Ids of a batch that is not worth being divided."""

_KEPT_KERNELS = {"ONEDNN_PRIMITIVE_CACHE_CAPACITY": "4096", "TF_MKL_OPTIMIZE_PRIMITIVE_MEMUSE": "false"}
"""oneDNN's cache has room for 1,024 kernels, which a search of a thousand sentences overflows; TensorFlow has a cache
of its own in front of it, which it does not use for products by default."""

Job = TypeVar("Job")


def run_parallel(work: Callable[[Job], Any], jobs: Sequence[Job]) -> Iterator[tuple[Job, Any]]:
    """Yields each job with its result, in order; as many run at a time as there are cores, up to MOST_WORKERS."""
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
    return 1 if tf.config.list_physical_devices("GPU") else min(MOST_WORKERS, len(os.sched_getaffinity(0)))


def use_single_core_ops() -> None:
    """Makes TensorFlow run each operation on one core, which is faster with parallel batches.

    It also keeps the kernels of its matrix library, which are compiled for each shape: shapes change with every step of
    a search, and recur with every batch.

    This holds for the whole process, so a command calls it before TensorFlow starts. Nothing changes where TensorFlow
    has started, where the environment sets these things, or where batches run one by one.
    """
    if workers() > 1:
        for name, value in _KEPT_KERNELS.items():
            os.environ.setdefault(name, value)
        if "TF_NUM_INTRAOP_THREADS" not in os.environ:
            with contextlib.suppress(RuntimeError):
                tf.config.threading.set_intra_op_parallelism_threads(1)


def batch_share(ids: int, largest: int) -> int:
    """Returns the size of batches, in ids, under which every worker gets one.

    Args:
        ids: how many there are in all.
        largest: most ids of a batch.
    """
    return min(largest, max(SMALLEST_SHARE, -(-ids // workers())))
