"""Times some updates of a model, and greedy decoding with it."""

import shutil
import time

import t2t
from benchmarks.harness.child import Clock, Others, read_job, versions, write_result
from benchmarks.ours.runs import build_run
from benchmarks.ours.training import Timed


def main():
    """Writes the throughput of training and of the second pass of decoding."""
    job = read_job()
    timed, others = Timed(Clock(job)), Others()
    run = build_run(job, train_steps=timed.clock.wanted, log_every=timed.clock.wanted)
    try:
        run.fit([timed])
        decoded = decode(job)
    finally:
        shutil.rmtree(job["output_dir"], ignore_errors=True)
    write_result(
        job,
        parameters=run.model.count_params(),
        tokens_per_second=timed.tokens_per_update * job["steps"] / sum(timed.clock.figures()["update_seconds"]),
        peak_memory_mb=timed.peak_memory_mb,
        **decoded,
        others=others.cores(),
        versions=versions("tensorflow", "keras", "numpy"),
    )


def decode(job):
    """Returns the throughput of greedy search in a second pass over the texts; the first pass compiles."""
    translator = t2t.load(job["output_dir"])
    how = {"decode_method": "greedy", "extra_length": job["extra_length"]}
    translator.translate(job["texts"], **how)
    began = time.perf_counter()
    found = translator.translate(job["texts"], **how)
    return {"output_tokens_per_second": sum(len(best.ids) for (best,) in found) / (time.perf_counter() - began)}


if __name__ == "__main__":
    main()
