"""Completes requests from the record of an existing run, and checks that both agree."""

import dataclasses
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from t2t.checkpoints.run_dir import RunDir
from t2t.checkpoints.store import CheckpointStore
from t2t.errors import UserError
from t2t.files.paths import local_path, to_record
from t2t.hparams.override import assigned_names, format_overrides
from t2t.runs.decisions import with_recorded_decisions
from t2t.runs.names import Request, build_hparams, get_hparams, merge_hparams
from t2t.runs.settings import REMEMBERED

MAY_CHANGE_ON_RESUME = (
    "train_steps", "xla", "best_metric", "early_stopping_steps", "decode_method", "beam_size", "alpha",
    "length_penalty", "coverage_penalty", "shortlist", "min_output_length", "eos_penalty", "no_repeat_ngram_size",
    "constrain_output", "mask_predict_iterations", "length_candidates", "extra_length", "max_input_length",
    "decode_batch_size", "sampling_temperature", "sampling_top_k", "sampling_top_p", "alignments", "replace_unknown",
    "token_scores", "alignment_layer", "alignment_head",
)  # fmt: skip
"""Hparams that a resumed run may change; `train_steps` also shapes the schedules `linear` and `cosine`."""


def fill_from_run(request: Request, reads_data: bool = True) -> Request:
    """Returns a request with missing names filled in from the run in its output directory, if there is one.

    A set from the run comes with its overrides and `train_steps`, a problem with its options; those of the request
    take precedence. `data_dir` is filled in only if data is just read: a run directory never decides what is written.

    Raises:
        UserError: data would be generated in the default folder while the run reads it from another.
    """
    if not request.output_dir or not RunDir.exists(request.output_folder):
        return request
    record = RunDir.open(request.output_folder).record
    changes = {
        name: getattr(record, name) for name in ("problem", "model", "hparams_set") if not getattr(request, name)
    }
    if "hparams_set" in changes:
        changes["overrides"] = merge_hparams(record.hparams_set, record.overrides, request.overrides)
        if request.train_steps is None and "train_steps" not in assigned_names(request.overrides):
            changes["train_steps"] = record.hparams["train"]["train_steps"]
    if not request.data_dir and record.data_dir:
        if reads_data:
            changes |= {"data_dir": record.data_dir, "is_data_of_run": True}
        elif record.data_dir != to_record(request.data_folder):
            raise UserError(
                f"--generate_data: the run in {request.output_folder} reads its data from {record.data_dir}; name "
                f"the folder to generate into with --data_dir, or leave out --generate_data to resume the run"
            )
    if "problem" in changes:
        changes["problem_options"] = {**record.problem_options, **request.problem_options}
    return dataclasses.replace(request, **changes)


def fill_from_start(request: Request, source: str) -> Request:
    """Returns a request with missing names filled in from the run whose weights a warm start takes, if there is one.

    A set from the run comes with its hparams of the network, and of mixtures if the problem is the run's, too; those of
    the request take precedence. All else is of the new run: how it trains, its data and the options of the problem.

    Args:
        request: as the user gave it, and filled in from the run in the output directory if that has begun.
        source: `--warm_start_from`: a run or one of its checkpoints; empty for none.

    Raises:
        UserError: names are missing and there is no such run, or its hparams set is not known.
    """
    names = [name for name in ("problem", "model", "hparams_set") if not getattr(request, name)]
    if not source or not names:
        return request
    run = local_path(source)
    if not RunDir.exists(run):
        run = run.resolve().parent.parent  # of a checkpoint
        if not RunDir.exists(run):
            raise UserError(
                f"{', '.join(f'--{name}' for name in names)}: not given, and --warm_start_from={source} holds no run "
                f"to take them from; name one each, or a run"
            )
    record = RunDir.open(run).record
    changes = {name: getattr(record, name) for name in names}
    if "hparams_set" in changes:
        sections = ("model", "mixture") if "problem" in changes else ("model",)
        theirs = {name: value for section in sections for name, value in record.hparams.get(section, {}).items()}
        named_set = get_hparams(record.hparams_set)
        changed = {name: value for name, (_, value) in named_set.replace(**theirs).difference(named_set).items()}
        changes["overrides"] = merge_hparams(record.hparams_set, format_overrides(changed), request.overrides)
    return dataclasses.replace(request, **changes)


def recorded_data_fingerprint(folder: Path) -> str:
    """Returns the fingerprint of the data of the run in a folder; empty without a run."""
    return RunDir.open(folder).record.data_fingerprint if RunDir.exists(folder) else ""


def recorded_seed(folder: Path, asked: int | None = None) -> int:
    """Returns the seed of the run in a folder; for a new run, the `asked` seed or 0.

    A run without checkpoints begins again, with the `asked` seed, or its own if none is asked.

    Raises:
        UserError: the run has checkpoints and was begun with a seed other than `asked`.
    """
    if not RunDir.exists(folder):
        return asked or 0
    run = RunDir.open(folder)
    store = CheckpointStore(run.checkpoints_folder)
    if store.latest() is None:
        return (run.record.seed if asked is None else asked) or 0
    begun_with = store.load(parts=()).state.get("seed", 0)
    if asked is not None:
        check_same_seed(store, begun_with, asked)
    return begun_with


def recorded_settings(folder: Path, given: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the settings `given`, by name, and those not given of `REMEMBERED` that the run in a folder has recorded.

    The number of best checkpoints is left as it is recorded if it is not given, and the run does not evaluate now.
    """
    recorded = RunDir.open(folder).record.settings if RunDir.exists(folder) else {}
    found = {name: recorded[name] for name in REMEMBERED if name in recorded} | dict(given)
    evaluates = found.get("evaluates", True) and found.get("eval_steps") != 0
    if not evaluates and "keep_best_checkpoints" not in given:
        found.pop("keep_best_checkpoints", None)
    return found


def check_same_beginning(folder: Path, warm_start_from: str) -> None:
    """Raises UserError if a run without checkpoints began with a warm start and would begin again without one."""
    if warm_start_from or not RunDir.exists(folder):
        return
    run = RunDir.open(folder)
    begun = run.record.warm_start
    if begun and not run.has_checkpoints:
        raise UserError(
            f"--output_dir={folder}: the run there began with --warm_start_from={begun.get('from')} and has no "
            f"checkpoint; give that flag again, with the others of its command, or use another --output_dir"
        )


def check_same_run(request: Request) -> None:
    """Raises UserError if names or hparams differ from those of the run in the output directory.

    Data and options of the problem are compared when they are opened, see `RunDir.check_same`.
    """
    folder = request.output_folder
    if not RunDir.exists(folder):
        return
    run = RunDir.open(folder)
    if not CheckpointStore(run.checkpoints_folder).steps():
        return  # a run without checkpoints may be replaced
    asked = {name: getattr(request, name) for name in ("problem", "model", "hparams_set")}
    hparams = with_recorded_decisions(build_hparams(request)[0], run.record.hparams, request.overrides)
    asked["hparams"] = hparams.to_dict()
    run.check_same(dataclasses.replace(run.record, **asked), MAY_CHANGE_ON_RESUME)


def check_same_seed(store: CheckpointStore, begun_with: int | None, seed: int) -> None:
    """Raises UserError if a run was begun with another seed."""
    if begun_with != seed:
        raise UserError(
            f"--random_seed={seed}: the run in {store.folder.parent} was begun with {begun_with}; "
            f"resume with that seed or use another --output_dir"
        )
