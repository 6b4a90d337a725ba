"""Stands for an array job on one machine: runs the tasks of `t2t-datagen --shard` in any order, then merges.

    python tests/faults/array_job.py TASKS FLAGS...

A scheduler gives a task that was killed again; so does who runs this again.
"""

import random
import sys

from t2t.cli import datagen


def main(tasks: int, flags: list[str]) -> int:
    """Returns the status of the first task that fails, or of the merging."""
    for task in random.sample(range(tasks), tasks):
        if status := datagen.main(["t2t-datagen", *flags, f"--shard={task}/{tasks}"]):
            return status
    return datagen.main(["t2t-datagen", *flags, "--merge"])


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1]), sys.argv[2:]))
