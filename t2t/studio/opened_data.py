"""Splits of runs' data, opened on demand and cached."""

import threading
from collections import OrderedDict
from collections.abc import Callable

from t2t.checkpoints.run_dir import RunDir
from t2t.data.manifest import MANIFEST_NAME
from t2t.data.reading.eval_batches import EvalBatches
from t2t.data.reading.training_batches import TrainingBatches
from t2t.errors import UserError
from t2t.runs.data import OpenData, check_split
from t2t.runs.run_checks import select_problem
from t2t.runs.trained_problems import batches_of_run
from t2t.studio.split_data import SplitData

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
