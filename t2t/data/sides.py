"""Looks at generated pairs for sides that were given wrongly: the same one twice, or swapped in dev and test."""

import logging
from collections.abc import Mapping
from pathlib import Path

import numpy as np

from t2t.data.manifest import SplitRecord
from t2t.problems.base import Problem
from t2t.problems.translation import Translation
from t2t.specs.constants import INPUTS, TARGETS, TRAIN
from t2t.specs.features import FeatureKind, ProblemSpec

_MOST_IDS = 1_000_000
"""Ids of a side that are looked at, the first ones."""
_SAME = 0.9
"""Share of translations that equal their source at which generation warns."""
_CLEARLY = 0.5
"""By how many nats an id must be more probable on the other side."""

log = logging.getLogger("t2t")


def report_sides(problem: Problem, folder: Path, spec: ProblemSpec, splits: Mapping[str, SplitRecord]) -> None:
    """Warns of translations that equal their sources, and of splits whose sides seem to be swapped."""
    inputs, targets = spec.features.get(INPUTS), spec.features.get(TARGETS)
    if not spec.shared_vocabulary or inputs is None or targets is None or targets.kind != FeatureKind.TOKENS:
        return
    of_train: list[np.ndarray] = []
    for split in sorted(splits, key=lambda split: split != TRAIN):
        rows = [_first_rows(folder, splits[split], name) for name in (INPUTS, TARGETS)]
        same = np.mean([np.array_equal(*pair) for pair in zip(*rows, strict=False)] or [False])
        if same >= _SAME and isinstance(problem, Translation):
            log.warning(
                "%s: %.1f%% of the targets equal their inputs; if the same file was given for both sides, correct that",
                split, 100 * same,
            )  # fmt: skip
        counts = [np.bincount(np.concatenate(side), minlength=inputs.vocab_size) for side in rows if side]
        if split == TRAIN:
            of_train = counts
        elif len(counts) == len(of_train) == 2 and (gain := min(_gains(counts, of_train))) > _CLEARLY:
            log.warning(
                "%s: its inputs look like the targets of %s, and its targets like the inputs there (an id is %.1f nats "
                "more probable); if source and target are swapped, correct that", split, TRAIN, gain,
            )  # fmt: skip


def _gains(counts: list[np.ndarray], of_train: list[np.ndarray]) -> list[float]:
    """Returns for each side by how much its ids are more probable on the other side of the training split, in nats."""
    log_probs = [np.log((side + 1) / (side + 1).sum()) for side in of_train]
    return [
        float(counts[side] @ (log_probs[1 - side] - log_probs[side])) / max(1, int(counts[side].sum()))
        for side in (0, 1)
    ]


def _first_rows(folder: Path, record: SplitRecord, name: str) -> list[np.ndarray]:
    """Returns the ids of the first examples of a side."""
    shard = record.shards[0]
    offsets = np.load(folder / shard.offsets[name].name, mmap_mode="r")
    rows = int(np.searchsorted(offsets, _MOST_IDS, side="right")) - 1
    ends = np.array(offsets[: rows + 1])
    values = np.load(folder / shard.values[name].name, mmap_mode="r")[: ends[-1]]
    return np.split(np.array(values), ends[1:-1]) if rows > 0 else []
