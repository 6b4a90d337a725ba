"""A split of a run's data, and its statistics over evenly spread examples: lengths, and frequencies of ids.

Legend: N examples of the sample, V ids of a vocabulary.
"""

import dataclasses
import functools
import threading
from collections import OrderedDict
from collections.abc import Callable, Mapping

import numpy as np

from t2t.checkpoints.run_dir import RunDir
from t2t.data.manifest import MANIFEST_NAME, SplitRecord
from t2t.data.reading.eval_batches import EvalBatches
from t2t.data.reading.reader import SplitReader
from t2t.data.reading.training_batches import TrainingBatches
from t2t.errors import UserError
from t2t.problems.base import Problem
from t2t.runs.data import OpenData, check_split
from t2t.runs.run_checks import select_problem
from t2t.runs.trained_problems import batches_of_run
from t2t.specs.features import FeatureKind
from t2t.text.encoder import TextEncoder

MOST_SAMPLED = 100_000
MOST_ITEMS = 10_000_000
_BLOCK = 2_000
"""Examples read at a time."""


@dataclasses.dataclass(frozen=True)
class SplitData:
    """A split of a run's data for the pages, with statistics."""

    data: OpenData
    split: str
    batches: TrainingBatches | EvalBatches | None
    """The batches of the run; None if they cannot be shown, see `no_batches`."""
    no_batches: str = ""
    """The reason, if there are none."""
    most_sampled: int = MOST_SAMPLED
    """Size of the sample of a larger split, in examples."""
    most_items: int = MOST_ITEMS
    """Approximate largest number of counted ids of a feature."""

    @property
    def problem(self) -> Problem:
        """The problem with its vocabularies."""
        return self.data.problem

    @property
    def reader(self) -> SplitReader:
        """The reader of the split."""
        return self.data.readers[self.split]

    @property
    def record(self) -> SplitRecord:
        """The manifest's record of the split."""
        return self.data.manifest.split(self.split)

    @property
    def columns(self) -> Mapping[str, str]:
        """Feature name -> stored name."""
        return self.problem.columns or {name: name for name in self.reader.features}

    @functools.cached_property
    def sample(self) -> np.ndarray:
        """Indices of the sampled examples, (N,) int64, ascending: all, or one from each of N equal parts.

        The sample is deterministic.
        """
        return spread(len(self.reader), self.most_sampled)

    def lengths(self, feature: str) -> np.ndarray:
        """Returns the length of a sequence feature, in items, in each example of the sample, (N,) int32."""
        return self.reader.lengths(self.columns[feature], self.sample)

    @functools.cached_property
    def vocabularies(self) -> list[tuple[TextEncoder, list[str]]]:
        """Each vocabulary with the names of the features that use it."""
        found: list[tuple[TextEncoder, list[str]]] = []
        for feature, encoder in self.problem.encoders.items():
            if feature not in self.columns:
                continue
            for known, features in found:
                if known is encoder:
                    features.append(feature)
                    break
            else:
                found.append((encoder, [feature]))
        return found

    def ids(self, feature: str, examples: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Returns the concatenated ids of some examples, and their lengths, (examples,).

        Raises:
            UserError: an id outside the vocabulary, since the file is damaged.
        """
        values, lengths = self.reader.read(examples, self.columns[feature])
        size = self.problem.encoders[feature].vocab_size
        if len(values) and int(values.max()) >= size:
            raise UserError(
                f"{self.reader.folder}: {feature} of {self.split} hold id {int(values.max())}, and the vocabulary has "
                f"{size}",
                "the file is damaged: delete that folder and run t2t-datagen again",
            )
        return values, lengths

    @functools.cached_property
    def counts(self) -> list[tuple[np.ndarray, int]]:
        """For each of `vocabularies`, the frequency of each id, (V,) int64, and the number of counted examples."""
        return [self._count(encoder, features) for encoder, features in self.vocabularies]

    def _count(self, encoder: TextEncoder, features: list[str]) -> tuple[np.ndarray, int]:
        totals = [self.record.columns[self.columns[feature]].items for feature in features]
        mean = max(1.0, max(totals) / max(1, len(self.reader)))
        examples = self.sample[spread(len(self.sample), max(1, int(self.most_items / mean)))]
        counts = np.zeros(encoder.vocab_size, np.int64)
        for start in range(0, len(examples), _BLOCK):
            for feature in features:
                values, _ = self.ids(feature, examples[start : start + _BLOCK])
                counts += np.bincount(np.ravel(values), minlength=encoder.vocab_size)
        return counts, len(examples)

    def is_text(self, feature: str) -> bool:
        """Returns whether a feature has a text form: it holds ids of a vocabulary, or classes."""
        kind = self.reader.features[self.columns[feature]].kind
        return kind in (FeatureKind.TOKENS, FeatureKind.LABEL) and feature in self.problem.encoders


def spread(count: int, most: int) -> np.ndarray:
    """Returns all integers below `count`, or `most`: one from each of `most` equal parts, drawn with a fixed seed."""
    if count <= most:
        return np.arange(count)
    edges = np.arange(most + 1, dtype=np.int64) * count // most
    return np.random.default_rng(0).integers(edges[:-1], edges[1:])


MOST_OPEN = 4
"""Largest number of open splits, with their computed figures."""

OpenSplit = Callable[[RunDir, str, str], OpenData]
"""(run, problem, split) -> the problem of the run with its data."""


class OpenedData:
    """Cache of the most recently used splits; a regenerated split is opened again. Thread-safe.

    Args:
        open_split: opens a split.
    """

    def __init__(self, open_split: OpenSplit):
        self._open = open_split
        self._lock = threading.Lock()
        self._splits: OrderedDict[tuple[str, str, str, str], tuple[int, SplitData]] = OrderedDict()

    def get(self, run: RunDir, problem: str, split: str) -> SplitData:
        """Returns a split of the data of one of a run's problems; an empty `problem` means the first.

        Raises:
            UserError: no such problem or split, no data of it, or data that does not belong to the run.
        """
        name = select_problem(run, problem or run.record.problems[0])
        with self._lock:
            return self._get(run, name, split)

    def _get(self, run: RunDir, name: str, split: str) -> SplitData:
        key = str(run.path), run.record.created, name, split
        known = self._splits.get(key)
        if known is None or known[0] != _written(known[1]):
            while len(self._splits) >= MOST_OPEN:
                self._splits.popitem(last=False)
            data = self._open(run, name, split)
            check_split(data, split)
            found = SplitData(data, split, *_batches(run, data, split))
            known = self._splits[key] = _written(found), found
        self._splits.move_to_end(key)
        return known[1]


def _written(split: SplitData) -> int:
    """Returns the time the data was written, in nanoseconds since 1970; 0 if it no longer exists."""
    try:
        return (split.reader.folder / MANIFEST_NAME).stat().st_mtime_ns
    except OSError:
        return 0


def _batches(run: RunDir, data: OpenData, split: str) -> tuple[TrainingBatches | EvalBatches | None, str]:
    """Returns the batches of the split, or None and the reason why they cannot be shown."""
    try:
        batches = batches_of_run(run, data, split)
    except UserError as error:
        return None, str(error)
    if isinstance(batches, TrainingBatches) and batches.resized:
        return None, "preprocessors change the lengths of these examples each time they are read"
    if isinstance(batches, TrainingBatches) and batches.is_packed:
        return None, "several of these examples are packed into a row, one after the other"
    return batches, ""
