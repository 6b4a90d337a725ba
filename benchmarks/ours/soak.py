"""Trains a tiny model for a long time and regularly records memory, open files and threads of its process."""

import os
from pathlib import Path

import keras

from benchmarks.harness.child import read_job, versions, write_result
from benchmarks.ours.runs import build_run


class Held(keras.callbacks.Callback):
    """Records memory, open files and threads at every multiple of `every` updates, after evaluation and checkpoint."""

    def __init__(self, every: int):
        super().__init__()
        self.every, self.found = every, []

    def on_train_batch_end(self, batch, logs=None):
        """Records them if the update is due."""
        if batch % self.every == 0:
            files, threads = (len(os.listdir(f"/proc/self/{what}")) for what in ("fd", "task"))
            self.found.append({"update": batch, "resident_mb": _resident_mb(), "files": files, "threads": threads})
            print(self.found[-1], flush=True)


def _resident_mb() -> float:
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 1e6


def main():
    """Writes all records, oldest first."""
    job = read_job()
    held = Held(job["every"])
    how = {"local_eval_frequency": job["every"], "eval_steps": 1, "keep_checkpoint_max": 2, "worker_cpu": 1}
    build_run(job, train_steps=job["updates"], log_every=50, **how).fit([held])
    write_result(job, held=held.found, versions=versions("tensorflow", "keras"))


if __name__ == "__main__":
    main()
