"""Trainings that differ by set and seed, each with its outputs of the test set."""

import dataclasses
import os
import queue
import subprocess
import sys
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from benchmarks.harness.corpus import Corpus
from benchmarks.harness.prepared import PROBLEM, prepare
from benchmarks.harness.processes import ROOT, SideError
from benchmarks.harness.variants import Variant
from t2t.checkpoints.run_dir import RunDir
from t2t.checkpoints.store import CheckpointStore
from t2t.files.atomic import write_atomically
from t2t.metrics.text import bleu
from t2t.specs.constants import TEST

PERPLEXITY = "dev/teacher_forced/perplexity"


@dataclasses.dataclass(frozen=True)
class Trained:
    """A finished run."""

    outputs: list[str]
    """Of the test set."""
    bleu: float
    perplexity: float
    """Of dev, after the last update."""
    parameters: int


class Runs:
    """Trains runs below a folder, and decodes the test set with each.

    Args:
        corpus: what is translated.
        folder: of the runs.
        vocab_size: pieces of the joint vocabulary.
        train_steps: updates of each run.
        changes: of all sets, value of `--hparams`.
        parallel: runs at a time, which share out the cores.
    """

    def __init__(
        self, corpus: Corpus, folder: Path, *, vocab_size: int, train_steps: int, changes: str = "", parallel: int = 1
    ):
        self._folder, self._steps, self._changes = folder, train_steps, changes
        self._data_dir = prepare(corpus, folder, vocab_size).data_dir
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
        """Returns what became of each variant and seed; a run that fails stops no other."""
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
            if not _was_made_by(training, outputs):  # a run that was begun with other flags is refused by its trainer
                self._command(run, cores, "t2t-trainer", *training)
                files = [f"--decode_from_file={self._sources}", f"--decode_to_file={outputs}"]
                self._command(run, cores, "t2t-decoder", f"--output_dir={run}", *files)
                write_atomically(_flags_file(outputs), "\n".join(training).encode())
            trained = self._read(run, outputs)
        except SideError as error:
            print(f"{run.name}: {error}", file=sys.stderr, flush=True)
            return error
        finally:
            self._cores.put(cores)
        print(f"{run.name}: BLEU {trained.bleu:.2f}", file=sys.stderr, flush=True)
        return trained

    def _command(self, run: Path, cores: Sequence[int], name: str, *flags: str) -> None:
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

    def _read(self, run: Path, outputs: Path) -> Trained:
        opened = RunDir.open(run)
        lines = outputs.read_text(encoding="utf-8").split("\n")[:-1]
        perplexity = [line[PERPLEXITY] for line in opened.metrics() if PERPLEXITY in line][-1]
        arrays = CheckpointStore(opened.checkpoints_folder).load_model().model
        parameters = sum(array.size for array in arrays.values())
        return Trained(lines, bleu(lines, self.references).value, perplexity, parameters)


def _flags_file(outputs: Path) -> Path:
    return outputs.with_suffix(".flags")


def _was_made_by(training: Sequence[str], outputs: Path) -> bool:
    """Returns whether outputs are there, of a run that was trained with these flags."""
    flags = _flags_file(outputs)
    return flags.is_file() and flags.read_text().split("\n") == list(training)
