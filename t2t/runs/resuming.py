"""Completes requests from the record of an existing run, and checks that both agree."""

import dataclasses
from pathlib import Path

from t2t.checkpoints.run_dir import RunDir
from t2t.checkpoints.store import CheckpointStore
from t2t.errors import UserError
from t2t.hparams.override import assigned_names, merge_overrides
from t2t.runs.names import Request, build_hparams

MAY_CHANGE_ON_RESUME = (
    "train_steps", "best_metric", "early_stopping_steps", "decode_method", "beam_size", "alpha", "length_penalty",
    "extra_length", "max_input_length", "decode_batch_size", "sampling_temperature", "sampling_top_k", "sampling_top_p",
)  # fmt: skip
"""Hparams that a resumed run may change: when it ends and how it is decoded.

Of these, `train_steps` also shapes the rate of the schedules that fall to an end, `linear` and `cosine`.
"""


def fill_from_run(request: Request, reads_data: bool = True) -> Request:
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


def recorded_data_fingerprint(folder: Path) -> str:
    """Returns the fingerprint of the data that the run in a folder was trained from; empty where there is no run."""
    return RunDir.open(folder).record.data_fingerprint if RunDir.exists(folder) else ""


def recorded_seed(folder: Path, asked: int | None = None) -> int:
    """Returns the seed of the run in a folder, or the one asked for, else 0, where none has saved anything.

    Raises:
        UserError: the run was begun with another seed than is asked for.
    """
    if not RunDir.exists(folder):
        return asked or 0
    store = CheckpointStore(RunDir.open(folder).checkpoints_folder)
    if store.latest() is None:
        return asked or 0
    begun_with = store.load(parts=()).state.get("seed", 0)
    if asked is not None:
        check_same_seed(store, begun_with, asked)
    return begun_with


def check_same_run(request: Request) -> None:
    """Demands that a run that has begun in the output directory is the one asked for, as far as its names tell.

    Its data and the problem's options are compared when they are opened, see `RunDir.check_same`.

    Raises:
        UserError: it is another run.
    """
    folder = request.output_folder
    if not RunDir.exists(folder):
        return
    run = RunDir.open(folder)
    if not CheckpointStore(run.checkpoints_folder).steps():
        return  # a run that has saved nothing gives way to another
    asked = {name: getattr(request, name) for name in ("problem", "model", "hparams_set")}
    asked["hparams"] = build_hparams(request)[0].to_dict()
    run.check_same(dataclasses.replace(run.record, **asked), MAY_CHANGE_ON_RESUME)


def check_same_seed(store: CheckpointStore, begun_with: int | None, seed: int) -> None:
    """Raises UserError where a run was begun with another seed than it is asked to go on with."""
    if begun_with != seed:
        raise UserError(
            f"--random_seed={seed}: the run in {store.folder.parent} was begun with {begun_with}; "
            f"go on with that seed or use another --output_dir"
        )
