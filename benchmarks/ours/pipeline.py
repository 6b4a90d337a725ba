"""Measures the throughput of the input pipeline alone."""

import time

import numpy as np

from benchmarks.harness.child import Others, read_job, versions, write_result
from benchmarks.ours.runs import build_run
from t2t.data.reading.prefetch import Prefetch
from t2t.specs import TARGETS

SECONDS = 3.0


def main():
    """Writes target tokens per second, without padding; a thread reads ahead as in training."""
    job = read_job()
    run = build_run(job, train_steps=1, log_every=1)
    tokens, batches = 0, 0
    with Prefetch(run.batches) as drawn:
        next(drawn)
        others, began = Others(), time.perf_counter()
        while time.perf_counter() < began + SECONDS:
            batch, _ = next(drawn)
            tokens += int(np.count_nonzero(batch[TARGETS]))
            batches += 1
        seconds = time.perf_counter() - began
        write_result(job, tokens_per_second=tokens / seconds, batches_per_second=batches / seconds,
                     others=others.cores(), versions=versions("numpy"))  # fmt: skip


if __name__ == "__main__":
    main()
