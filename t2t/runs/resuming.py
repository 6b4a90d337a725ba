"""What a user need not say again: the names of a run that is there."""

import dataclasses
from pathlib import Path

from t2t.checkpoints.store import CheckpointStore
from t2t.hparams.override import assigned_names, merge_overrides
from t2t.run_dir import RunDir
from t2t.runs.names import Request


def remembered(request: Request, reads_data: bool = True) -> Request:
    """Returns a request whose names that were not given are those of the run in its output directory, if one is there.

    Where the hparams set is not named, the run's own overrides hold, those of the request over them, and its number of
    updates; where the problem is not named, the run's own options hold in the same way. Where `data_dir` is not named,
    it is where the run's data was, if that is only read: a run directory decides nowhere what is written.
    """
    if not request.output_dir or not RunDir.exists(request.output_folder):
        return request
    record = RunDir.open(request.output_folder).record
    changes = {
        name: getattr(record, name) for name in ("problem", "model", "hparams_set") if not getattr(request, name)
    }
    if "hparams_set" in changes:
        changes["overrides"] = merge_overrides(record.overrides, request.overrides)
        if request.train_steps is None and "train_steps" not in assigned_names(request.overrides):
            changes["train_steps"] = record.hparams["train"]["train_steps"]
    if reads_data and not request.data_dir and record.data_dir:
        changes |= {"data_dir": record.data_dir, "is_data_of_run": True}
    if "problem" in changes:
        changes["problem_options"] = {**record.problem_options, **request.problem_options}
    return dataclasses.replace(request, **changes)


def remembered_data(folder: Path) -> str:
    """Returns the fingerprint of the data that the run in a folder was trained from; empty where there is no run."""
    return RunDir.open(folder).record.data_fingerprint if RunDir.exists(folder) else ""


def remembered_seed(folder: Path) -> int:
    """Returns the seed that the run in a folder was begun with; 0 where none has saved anything there."""
    if not RunDir.exists(folder):
        return 0
    store = CheckpointStore(RunDir.open(folder).checkpoints_folder)
    return 0 if store.latest() is None else store.load(parts=()).state.get("seed", 0)
