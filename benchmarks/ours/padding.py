"""Measures the padding in one epoch of training batches."""

import numpy as np

from benchmarks.harness.child import read_job, write_result
from benchmarks.ours.runs import build_run
from t2t.specs import INPUTS, TARGETS


def main():
    """Writes the share of padding, of targets with free shapes and of both sides with fixed ones, and shape counts."""
    job = read_job()
    job |= {"overrides": f"{job['overrides']},xla=off"}  # XLA would limit the shapes in both cases
    free, shapes = _epoch(job)
    few = {**job, "overrides": f"{job['overrides']},fixed_shapes={job['shapes']}"}
    fixed, fixed_shapes = _epoch(few)
    write_result(
        job,
        free=1 - free[TARGETS][0] / free[TARGETS][1],
        fixed=1 - sum(tokens for tokens, _ in fixed.values()) / sum(positions for _, positions in fixed.values()),
        shapes={"free": shapes, "fixed": fixed_shapes},
    )


def _epoch(job):
    """Returns [tokens, positions] of each side, and the number of distinct batch shapes."""
    batches = build_run(job, train_steps=1, log_every=1).batches
    counts = {name: np.zeros(2, np.int64) for name in (INPUTS, TARGETS)}
    shapes = set()
    while batches.state()["epoch"] == 0:
        batch, _ = next(batches)
        shapes.add(tuple(batch[name].shape for name in sorted(counts)))
        for name, count in counts.items():
            count += np.count_nonzero(batch[name]), batch[name].size
    return {name: count.tolist() for name, count in counts.items()}, len(shapes)


if __name__ == "__main__":
    main()
