"""Times commands that print help without loading TensorFlow, and `import tensorflow`."""

import sys

from benchmarks.harness.child import Others, read_job, versions, write_result
from benchmarks.harness.commands import seconds_of
from benchmarks.harness.processes import ROOT

TRAINER = str(ROOT / "bin" / "t2t-trainer")


def main():
    """Writes the seconds of each command."""
    job = read_job()
    others = Others()
    write_result(
        job,
        help=seconds_of([sys.executable, TRAINER, "--help"]),
        registry_help=seconds_of([sys.executable, TRAINER, "--registry_help"]),
        tensorflow=seconds_of([sys.executable, "-c", "import tensorflow"]),
        others=others.cores(),
        versions=versions("tensorflow", "keras"),
    )


if __name__ == "__main__":
    main()
