"""Writes the first training batches of a run to a file for the peers, which cannot use our input pipeline.

Letters: B rows of a batch, S source length, T target length.
"""

import numpy as np

from benchmarks.harness.child import read_job, write_result
from benchmarks.ours.runs import build_run
from t2t.specs import INPUTS, TARGETS


def main():
    """Writes `inputs_0` (B, S), `targets_0` (B, T), `inputs_1`, ..., int32, without empty rows and columns."""
    job = read_job()
    run = build_run(job, train_steps=1, log_every=1)
    arrays, padded = {}, []
    for number in range(job["count"]):
        batch, _ = next(run.batches)
        rows = (batch[TARGETS] != 0).any(axis=1)
        for name in (INPUTS, TARGETS):
            arrays[f"{name}_{number}"] = _trimmed(batch[name][rows])
        padded.append({name: batch[name].size for name in (INPUTS, TARGETS)})
    np.savez(job["batches"], **arrays)
    spec = run.parts[0].data.problem.spec()
    write_result(job, vocab_size=spec.targets.vocab_size, parameters=run.model.count_params(), padded=padded)


def _trimmed(ids):
    return ids[:, : int((ids != 0).any(axis=0).nonzero()[0].max()) + 1]


if __name__ == "__main__":
    main()
