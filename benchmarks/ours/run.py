"""Trains the run that other benchmarks decode."""

from benchmarks.harness.child import read_job, write_result
from benchmarks.ours.runs import build_run

SAVED_EVERY = 250
"""Updates between two checkpoints, from which an interrupted run resumes."""


def main():
    """Trains the run in `output_dir`, or resumes it if it was interrupted."""
    job = read_job()
    run = build_run(job, train_steps=job["train_steps"], log_every=50, local_eval_frequency=SAVED_EVERY)
    run.fit()
    write_result(job, train_steps=job["train_steps"])


if __name__ == "__main__":
    main()
