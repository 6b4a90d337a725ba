"""Simulates an array job on one machine: runs the tasks of `t2t-datagen --shard` twice in random order, then merges.

    python tests/faults/array_job.py TASKS FLAGS...

The first pass computes the digests of duplicates, see docs/scale.md. A scheduler restarts killed tasks; here the caller
restarts the whole script.
"""

import random
import sys

from t2t.cli import datagen


def main(tasks: int, flags: list[str]) -> int:
    """Returns the exit status of the first task that fails, or that of merging."""
    for task in [*random.sample(range(tasks), tasks), *random.sample(range(tasks), tasks)]:
        if status := datagen.main(["t2t-datagen", *flags, f"--shard={task}/{tasks}"]):
            return status
    return datagen.main(["t2t-datagen", *flags, "--merge"])


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1]), sys.argv[2:]))
