"""Learns the lexical shortlist of a run from its training data. Does not load TensorFlow."""

import contextlib
import dataclasses
import logging
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from t2t.checkpoints.run_dir import RunDir
from t2t.data.reading.reader import SplitReader
from t2t.files.paths import check_outside_zoo
from t2t.files.progress import Progress
from t2t.inference.shortlist import Sentences, Shortlist, best_translations, fit, text_spec, write_shortlist
from t2t.runs.config import ShortlistOptions
from t2t.runs.data import OpenData, check_split, open_run_data
from t2t.specs import DEV, INPUTS, TARGETS, TRAIN

log = logging.getLogger("t2t")

ITERATIONS = 5
"""Iterations of expectation maximization; 10 hardly improve the candidates."""

READ_AT_ONCE = 4096
"""Examples per read."""


@dataclasses.dataclass(frozen=True)
class ShortlistReport:
    """Size and quality of a learned shortlist."""

    folder: Path
    examples: int
    """Training examples that it was learned from."""
    candidates: float
    """Mean number of candidates of an input of the dev split."""
    coverage: float
    """Fraction of the pieces of the dev split's targets that are candidates of their input."""

    def __str__(self) -> str:
        return (
            f"learned from {self.examples:,} examples; dev: {self.candidates:.0f} candidates for an input, among them "
            f"{100 * self.coverage:.1f} % of the pieces of the references"
        )


def learn_shortlist(run: RunDir, data_dir: str, problem: str, options: ShortlistOptions) -> ShortlistReport:
    """Learns the shortlist of one of a run's problems, and writes it into the run.

    Raises:
        UserError: a problem that is not from text to text, no data of the run, or a run in a zoo.
        MachineError: the shortlist cannot be written.
    """
    check_outside_zoo(run.path, "output_dir")
    spec = text_spec(run, problem)
    train = _Pairs(open_run_data(run, data_dir, problem, TRAIN), TRAIN)
    dev = _Pairs(open_run_data(run, data_dir, problem, DEV), DEV)
    source_size, target_size = spec.features[INPUTS].vocab_size, spec.features[TARGETS].vocab_size
    chosen = _spread(len(train), options.max_examples)
    log.info("learning a shortlist of %s from %s examples", problem, f"{len(chosen):,}")
    counts = np.zeros(target_size, np.int64)
    for _, targets in train.batches(chosen):
        counts += np.bincount(targets.ids, minlength=target_size)
    frequent = np.argsort(-counts, kind="stable")[: options.frequent].astype(np.int32)
    with contextlib.closing(Progress("learning", "examples", len(chosen) * (ITERATIONS + 1))) as progress:
        table = fit(lambda: train.batches(chosen, progress), target_size, ITERATIONS)
    count = min(options.translations, target_size)
    translations = best_translations(table, source_size, target_size, count)
    shortlist = Shortlist(frequent, translations, target_size)
    folder = write_shortlist(run, problem, shortlist, len(chosen))
    return ShortlistReport(folder, len(chosen), *_measure(shortlist, dev))


class _Pairs:
    """The examples of a split as ids of inputs and targets."""

    def __init__(self, data: OpenData, split: str):
        check_split(data, split)
        columns = data.problem.columns or {}
        self._reader: SplitReader = data.readers[split]
        self._names = [columns.get(name, name) for name in (INPUTS, TARGETS)]

    def __len__(self) -> int:
        return len(self._reader)

    def batches(self, chosen: np.ndarray, progress: Progress | None = None) -> Iterator[tuple[Sentences, Sentences]]:
        """Yields some examples, READ_AT_ONCE at a time; counts those that have been used in `progress`."""
        for start in range(0, len(chosen), READ_AT_ONCE):
            some = chosen[start : start + READ_AT_ONCE]
            sources, targets = (Sentences(*self._reader.read(some, name)) for name in self._names)
            yield sources, targets
            if progress is not None:
                progress.add(len(some))


def _spread(count: int, most: int) -> np.ndarray:
    """Returns `most` evenly spread indices below `count`; all if there are no more, or if `most` is 0."""
    chosen = min(count, most or count)
    return np.arange(chosen) * count // chosen


def _measure(shortlist: Shortlist, dev: _Pairs) -> tuple[float, float]:
    """Returns the mean number of candidates of an input, and the fraction of target pieces among them."""
    candidates = covered = pieces = 0
    for sources, targets in dev.batches(np.arange(len(dev))):
        pairs = zip(*(np.split(ids, np.cumsum(lengths)[:-1]) for ids, lengths in (sources, targets)), strict=True)
        for source, target in pairs:
            (allowed_V,) = shortlist.candidates(source[None, :])
            candidates += allowed_V.sum()
            covered += allowed_V[target].sum()
            pieces += len(target)
    return candidates / len(dev), covered / pieces
