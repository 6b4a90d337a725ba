"""Training data: the corpus, cleaned and encoded by `t2t-datagen` with one joint vocabulary."""

import dataclasses
import os
import subprocess
import sys
from pathlib import Path

from benchmarks.harness.corpus import Corpus
from benchmarks.harness.processes import ROOT
from t2t.errors import MachineError
from t2t.specs import SPLITS

PROBLEM = "text2text_files"

VOCAB_SIZE = 10_000
"""Default size of the joint vocabulary."""


@dataclasses.dataclass(frozen=True)
class Prepared:
    """A corpus and the folder of its generated data."""

    corpus: Corpus
    data_dir: Path


def prepare(corpus: Corpus, home: Path, vocab_size: int) -> Prepared:
    """Generates the data of a corpus below `home`; complete data is reused.

    Raises:
        MachineError: `t2t-datagen` failed.
    """
    data_dir = home / "data" / f"{corpus.name}-{vocab_size}"
    generate(corpus, data_dir, vocab_size)
    return Prepared(corpus, data_dir)


def generate(corpus: Corpus, data_dir: Path, vocab_size: int) -> None:
    """Runs `t2t-datagen` on a corpus.

    Raises:
        MachineError: it failed; the message has its last line of standard error.
    """
    command = [sys.executable, str(ROOT / "bin" / "t2t-datagen"), f"--problem={PROBLEM}"]
    done = subprocess.run(
        [*command, f"--data_dir={data_dir}", f"--vocab_size={vocab_size}", *file_flags(corpus)],
        env={**os.environ, "PYTHONPATH": str(ROOT)}, capture_output=True, text=True, check=False,
    )  # fmt: skip
    if done.returncode:
        raise MachineError(f"generating the data of {corpus.name} failed: {done.stderr.strip().splitlines()[-1]}")


def file_flags(corpus: Corpus) -> list[str]:
    """Returns the flags that pass the files of a corpus to `t2t-datagen`."""
    sides = ("source", "target")
    return [
        f"--{split}_{side}={path}" for split in SPLITS for side, path in zip(sides, corpus.files[split], strict=True)
    ]
