"""Times `t2t-datagen` on a corpus."""

import resource
import shutil
import sys
from pathlib import Path

from benchmarks.harness.child import Others, read_job, versions, write_result
from benchmarks.harness.commands import seconds_of
from benchmarks.harness.prepared import PROBLEM
from benchmarks.harness.processes import ROOT
from t2t.data.manifest import read_manifest
from t2t.specs import TRAIN


def main():
    """Writes the seconds, the number of training pairs and the peak memory of the largest process."""
    job = read_job()
    shutil.rmtree(job["data_dir"], ignore_errors=True)
    others = Others()
    seconds = seconds_of(
        [sys.executable, str(ROOT / "bin" / "t2t-datagen"), f"--data_dir={job['data_dir']}", *job["flags"]]
    )
    busy = others.cores()
    pairs = read_manifest(Path(job["data_dir"]) / PROBLEM).split(TRAIN).examples
    shutil.rmtree(job["data_dir"])
    write_result(
        job,
        seconds=seconds,
        pairs=pairs,
        others=busy,
        peak_memory_mb=resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss * 1024 / 1e6,
        versions=versions("sentencepiece", "numpy"),
    )


if __name__ == "__main__":
    main()
