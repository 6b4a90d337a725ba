"""Trains variants of hparams sets with several seeds and decodes the test set with each run."""

import dataclasses
import json
import os
import queue
import subprocess
import sys
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from benchmarks.harness.corpus import Corpus
from benchmarks.harness.prepared import PROBLEM, prepare
from benchmarks.harness.processes import ROOT, SideError
from benchmarks.harness.variants import Variant
from t2t.checkpoints.run_dir import RunDir
from t2t.checkpoints.store import CheckpointStore
from t2t.files.atomic import write_atomically
from t2t.metrics.text import bleu
from t2t.specs import TEST

PERPLEXITY = "dev/teacher_forced/perplexity"


@dataclasses.dataclass(frozen=True)
class Trained:
    """A finished run."""

    outputs: list[str]
    """Translations of the test set."""
    bleu: float
    """Of the test set, in percent."""
    perplexity: float
    """Of the dev set, after the last evaluation."""
    parameters: int


class Runs:
    """Trains runs below a folder, and decodes the test set with each.

    Args:
        corpus: training, dev and test data.
        folder: folder for the runs, data and outputs.
        vocab_size: size of the joint vocabulary.
        train_steps: updates of each run.
        changes: hparams changed in all runs, a value of `--hparams`.
        parallel: number of runs at a time; they divide the cores among them.
    """

    def __init__(
        self, corpus: Corpus, folder: Path, *, vocab_size: int, train_steps: int, changes: str = "", parallel: int = 1
    ):
        self._folder, self._steps, self._changes = folder, train_steps, changes
        self._data_dir = self.prepare(corpus, folder, vocab_size)
        pairs = list(corpus.pairs(TEST))
        self.references = [target for _, target in pairs]
        self._sources = folder / f"{corpus.name}.sources"
        write_atomically(self._sources, "".join(f"{source}\n" for source, _ in pairs).encode())
        cores = sorted(os.sched_getaffinity(0))
        count = max(1, min(parallel, len(cores)))
        self._cores: queue.Queue[list[int]] = queue.Queue()
        for number in range(count):
            self._cores.put(cores[number::count])
        self._parallel = count

    def train(self, jobs: Sequence[tuple[Variant, int]]) -> list[Trained | SideError]:
        """Returns the finished run of each variant and seed, or the error of one that failed; others continue."""
        threads = ThreadPoolExecutor(self._parallel)
        try:
            return list(threads.map(lambda job: self._train(*job), jobs))
        finally:
            threads.shutdown(cancel_futures=True)

    def _train(self, variant: Variant, seed: int) -> Trained | SideError:
        run = self._folder / f"{variant.name}-seed{seed}"
        outputs = run.with_name(f"{run.name}-{self._steps}.outputs")
        changes = ",".join(part for part in (variant.changes, self._changes) if part)
        training = [
            f"--problem={PROBLEM}", f"--model={variant.model}", f"--hparams_set={variant.hparams_set}",
            f"--hparams={changes}", f"--data_dir={self._data_dir}", f"--output_dir={run}",
            f"--train_steps={self._steps}", f"--random_seed={seed}", "--keep_checkpoint_max=1",
            f"--local_eval_frequency={max(1, self._steps // 3)}",
        ]  # fmt: skip
        cores = self._cores.get()
        try:
            figures = _figures(training, outputs) or self._make(run, outputs, cores, training)
        except SideError as error:
            print(f"{run.name}: {error}", file=sys.stderr, flush=True)
            return error
        finally:
            self._cores.put(cores)
        lines = outputs.read_text(encoding="utf-8").split("\n")[:-1]
        trained = Trained(lines, bleu(lines, self.references).value, figures["perplexity"], figures["parameters"])
        print(f"{run.name}: BLEU {trained.bleu:.2f}", file=sys.stderr, flush=True)
        return trained

    def _make(self, run: Path, outputs: Path, cores: Sequence[int], training: Sequence[str]) -> dict[str, Any]:
        """Trains or resumes a run and decodes; returns its figures, which are also written next to the outputs."""
        self.command(run, cores, "t2t-trainer", *training)  # refuses a run that was started with other flags
        opened = RunDir.open(run)
        checkpoint = CheckpointStore(opened.checkpoints_folder).load_model()
        if checkpoint.step != self._steps:
            raise SideError(f"it has {checkpoint.step} updates already; ask for as many, or name another --folder")
        files = ["--engine=tensorflow", f"--decode_from_file={self._sources}", f"--decode_to_file={outputs}"]
        self.command(run, cores, "t2t-decoder", f"--output_dir={run}", *files)
        figures = {
            "training": training,
            "perplexity": [line[PERPLEXITY] for line in opened.metrics() if PERPLEXITY in line][-1],
            "parameters": sum(array.size for array in checkpoint.model.values()),
        }
        write_atomically(_figures_file(outputs), (json.dumps(figures, indent=1) + "\n").encode())
        return figures

    def prepare(self, corpus: Corpus, folder: Path, vocab_size: int) -> Path:
        """Generates the data of the corpus, and returns their folder."""
        return prepare(corpus, folder, vocab_size).data_dir

    def command(self, run: Path, cores: Sequence[int], name: str, *flags: str) -> None:
        """Runs a command on some cores, for a run.

        Raises:
            SideError: it failed; the message has its last line.
        """
        log = run.with_name(f"{run.name}.log")
        with open(log, "a") as said:
            done = subprocess.run(
                [sys.executable, str(ROOT / "bin" / name), *flags],
                env={**os.environ, "PYTHONPATH": str(ROOT)}, stdin=subprocess.DEVNULL, stdout=said, stderr=said,
                preexec_fn=lambda: os.sched_setaffinity(0, cores), check=False,
            )  # fmt: skip
        if done.returncode:
            last = (log.read_text(errors="replace").strip().splitlines() or ["it said nothing"])[-1]
            raise SideError(f"{name} ended with status {done.returncode}: {last[:200]}; see {log}")


def _figures_file(outputs: Path) -> Path:
    return outputs.with_suffix(".json")


def _figures(training: Sequence[str], outputs: Path) -> dict[str, Any] | None:
    """Returns the stored figures of a run that was trained with these flags, or None if there are none."""
    file = _figures_file(outputs)
    figures = json.loads(file.read_text()) if file.is_file() and outputs.is_file() else {}
    return figures if figures.get("training") == list(training) else None
