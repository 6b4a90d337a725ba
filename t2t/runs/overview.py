"""An overview of all runs below a folder: names, progress and best result of each. No model is loaded."""

import contextlib
import dataclasses
import os
from collections import deque
from collections.abc import Iterator
from pathlib import Path

from t2t.checkpoints.run_dir import RECORD_FILE, RunDir, plausible_number
from t2t.checkpoints.store import CheckpointStore
from t2t.errors import T2TError, UserError, one_line

TRAINING, STOPPED, FINISHED, DAMAGED = "training", "stopped", "finished", "damaged"

_SPEED = "train/tokens_per_second"
_LAST_BYTES = 1 << 16
"""Bytes at the end of a run's `metrics.jsonl` that are read, enough for its last reports."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class RunOverview:
    """A snapshot of a run; what is unknown is None or empty."""

    run: str
    """Path below the folder."""
    state: str
    """`training` now, `finished`, `stopped` before its last update, or `damaged`."""
    problem: str = ""
    model: str = ""
    hparams_set: str = ""
    changes: str = ""
    """Overrides of the set: the value of `--hparams`."""
    step: int | None = None
    """Last update that was reported."""
    of: int | None = None
    """Number of the last update, hparam `train_steps`."""
    tokens_per_second: float | None = None
    """Target tokens, at the last report."""
    seconds_left: float | None = None
    """Remaining training time at the current speed; None if it is not training."""
    metric: str = ""
    """Figure that selects the best checkpoint."""
    best: float | None = None
    """Its best value."""
    at_step: int | None = None
    """Update of the best checkpoint."""
    updated: float | None = None
    """Time of the last report, in seconds since 1970."""
    error: str = ""
    """Why the run cannot be read."""


FIELDS = tuple(field.name for field in dataclasses.fields(RunOverview))


LINK_LEVELS = 3
"""How deep folders below a link are searched: enough for a link to a run or to a folder of groups of runs, and few
enough for a link to a whole disk."""


def find_runs(folder: Path) -> Iterator[Path]:
    """Yields the folders of all runs in or below a folder, each once: sorted, then those behind links.

    Links to folders are followed `LINK_LEVELS` deep. No folder is searched twice, so that cycles of links end.
    """
    seen: set[tuple[int, int]] = set()  # device and inode of a folder are the same by any path to it
    waiting: deque[tuple[Path, int | None]] = deque([(folder, None)])
    while waiting:
        start, levels = waiting.popleft()
        for name, folders, files in os.walk(start):
            path = Path(name)
            try:
                status = os.stat(name)
            except OSError:  # it is gone
                folders.clear()
                continue
            identity, is_run = (status.st_dev, status.st_ino), RECORD_FILE in files
            if is_run and identity not in seen:
                yield path
            if is_run or identity in seen or (levels is not None and len(path.parts) - len(start.parts) >= levels):
                folders.clear()
            seen.add(identity)
            folders[:] = sorted(one for one in folders if not one.startswith("."))
            waiting.extend((link, LINK_LEVELS) for one in folders if (link := path / one).is_symlink())


def overview(folder: Path) -> list[RunOverview]:
    """Returns an overview of each run below a folder, including those that cannot be read, with the reason.

    Raises:
        UserError: there is no such folder.
    """
    if not folder.is_dir():
        raise UserError(f"{folder}: there is no such folder", "name one with runs in it")
    return [overview_of(run, os.path.relpath(run, folder)) for run in find_runs(folder)]


def overview_of(folder: Path, name: str) -> RunOverview:
    """Returns an overview of the run in a folder; `name` becomes its field `run`."""
    try:
        return _read(RunDir.open(folder), name)
    except T2TError as error:
        return RunOverview(run=name, state=DAMAGED, error=one_line(error))


def _read(run: RunDir, name: str) -> RunOverview:
    """Returns an overview, with progress and speed from the plausible numbers in the last lines of figures."""
    record, of = run.record, run.record.hparams.get("train", {}).get("train_steps")
    step: int | None = None
    updated: float | None = None
    tokens_per_second: float | None = None
    seconds_per_update: float | None = None
    before: tuple[int, float] | None = None
    for line in run.metrics(_LAST_BYTES):
        time = plausible_number(line.get("time"))
        if plausible_number(line["step"]) is None:
            continue
        step, updated = line["step"], updated if time is None else time
        if _SPEED in line:
            tokens_per_second = plausible_number(line[_SPEED])
            # A resumed run repeats updates, and a clock may go back.
            if before and time is not None and line["step"] > before[0] and time > before[1]:
                seconds_per_update = (time - before[1]) / (line["step"] - before[0])
            before = None if time is None else (line["step"], time)
    is_training = run.is_training
    state = TRAINING if is_training else FINISHED if of is not None and step is not None and step >= of else STOPPED
    best, left = None, None
    with contextlib.suppress(T2TError):  # a damaged pointer
        best = CheckpointStore(run.checkpoints_folder).best()
    if is_training and seconds_per_update is not None and of is not None and step is not None:
        left = max(0, of - step) * seconds_per_update
    return RunOverview(
        run=name,
        state=state,
        problem=record.problem,
        model=record.model,
        hparams_set=record.hparams_set,
        changes=record.overrides,
        step=step,
        of=of,
        tokens_per_second=tokens_per_second,
        seconds_left=left,
        metric=best.metric if best else "",
        best=best.value if best else None,
        at_step=best.step if best else None,
        updated=updated,
    )
