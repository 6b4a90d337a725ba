"""Checks of a requested run that do not load TensorFlow."""

import logging
from collections.abc import Sequence
from pathlib import Path

from t2t.checkpoints.averaging import best_steps, count_of_best
from t2t.checkpoints.layout import LATEST
from t2t.checkpoints.run_dir import RunDir
from t2t.checkpoints.store import CheckpointStore
from t2t.errors import UserError
from t2t.files.paths import local_path
from t2t.hparams.base import HParams
from t2t.inference.engine import AUTO, CTRANSLATE2, EngineChoice
from t2t.registry import HPARAMS
from t2t.registry.plugins import Plugin
from t2t.runs.decisions import with_recorded_decisions
from t2t.runs.names import canonical, get_hparams, get_problem, split_variants
from t2t.runs.startup import load_plugins_quietly

log = logging.getLogger("t2t")


NO_RUN = (
    "--{}: not given; name the folder of a run, as t2t-trainer was given it, or one that comes with t2t: t2t-runs zoo: "
    "lists them"
)


def open_run(
    output_dir: str | Path, problem: str = "", model: str = "", hparams_set: str = "", t2t_usr_dir: str = ""
) -> RunDir:
    """Opens a run and checks the given names against it; loads plug-ins if a name may be one of their aliases.

    Raises:
        UserError: no --output_dir, no run, a run of another problem, model or set, or a broken plug-in.
    """
    if not output_dir:
        raise UserError(NO_RUN.format("output_dir"))
    run = RunDir.open(output_dir)
    names = {"problem": problem, "model": model, "hparams_set": hparams_set}
    requested = {kind: name for kind, name in names.items() if name}
    if _differing_names(requested, run):
        load_plugins_quietly(t2t_usr_dir)
    if wrong := _differing_names(requested, run):
        found = "; ".join(f"--{name}={requested[name]} requested, {getattr(run.record, name)} found" for name in wrong)
        raise UserError(f"the run in {run.path} is another: {found}", "leave these flags out, they are optional")
    return run


def _differing_names(requested: dict[str, str], run: RunDir) -> list[str]:
    """Returns the keys of `requested` whose names, with registered aliases resolved, differ from the run's."""
    own = {kind: {canonical(kind, getattr(run.record, kind))} for kind in requested}
    if "problem" in own:
        own["problem"] |= {canonical("problem", name) for name in run.record.problems}
    return [kind for kind, name in requested.items() if canonical(kind, name) not in own[kind]]


def check_engine_of_adapters(engine: EngineChoice) -> None:
    """Raises UserError if CTranslate2 is requested with adapters; for `auto`, logs that TensorFlow decodes."""
    if engine.engine == CTRANSLATE2:
        raise UserError(
            "--adapters with --engine=ctranslate2: adapters share weights that TensorFlow holds",
            "leave one of them out, or name the run of adapters in --output_dir",
        )
    if engine.engine == AUTO:
        log.info("--engine=auto: TensorFlow decodes with --adapters")


def check_loadable(run: RunDir, plugins: list[Plugin], checkpoint: str = LATEST, decode_overrides: str = "") -> None:
    """Checks that a run can be loaded, without reading weights.

    Raises:
        UserError: a missing plug-in, no such checkpoint (see `CheckpointStore.find`), or a wrong override.
    """
    check_plugins(run, plugins)
    check_checkpoint(CheckpointStore(run.checkpoints_folder), checkpoint)
    if decode_overrides and run.record.hparams_set in HPARAMS:
        override_decoding(get_hparams(run.record.hparams_set).from_dict(run.record.hparams), decode_overrides)


def check_checkpoint(store: CheckpointStore, which: str) -> None:
    """Raises UserError if a store has no such checkpoint; reads none."""
    if (count := count_of_best(which)) is not None:
        best_steps(store, count, warns=False)
    elif which != LATEST or not store.steps():
        store.find(which)


def check_own_checkpoints(runs: Sequence[RunDir], which: str) -> None:
    """Raises UserError for the path of a checkpoint that is not each run's own, as no path is of several runs."""
    if which == LATEST or count_of_best(which) is not None:
        return
    for run in runs:
        found = CheckpointStore(run.checkpoints_folder).find(which)
        if found.parent.resolve() != run.checkpoints_folder.resolve():
            raise UserError(
                f"{found} is not a checkpoint of the run in {run.path}, and one is taken of each run",
                "give latest, best, best:5, averaged or a step",
                option="checkpoint",
                value=which,
            )


def find_source(source: str) -> tuple[CheckpointStore, str]:
    """Returns the store and name of the checkpoint of a warm start from a run or checkpoint; raises UserError."""
    store, which = CheckpointStore(local_path(source)), source
    if RunDir.exists(source):
        store, which = CheckpointStore(RunDir.open(source).checkpoints_folder), LATEST
    try:
        check_checkpoint(store, which)
    except UserError as error:
        raise UserError(f"{error}", option="warm_start_from", value=source) from error
    return store, which


def select_problem(run: RunDir, name: str = "", language: str = "") -> str:
    """Returns the requested problem by its name in the run; raises UserError for another, or none of several.

    If an output `language` is given and the problems share their modalities, any problem will do: without a name, this
    is the first with that target language, else the first.
    """
    names = run.record.problems
    listed = ", ".join(names)
    if language and not name and run.record.hparams.get("mixture", {}).get("shared_modalities"):
        writing = [one for one in names if _target_language(run, one) == language]
        return (writing or list(names))[0]
    if not name and len(names) == 1:
        return names[0]
    if not name:
        raise UserError(f"the run in {run.path} is of several problems", f"name one with --problem: {listed}")
    found = [one for one in names if canonical("problem", one) == canonical("problem", name)]
    if not found:
        raise UserError(f"the run in {run.path} is of {listed}", "name one of these", option="problem", value=name)
    return found[0]


def check_one_problem(runs: Sequence[RunDir], problem: str) -> None:
    """Raises UserError unless all runs have the problem, one of the first run's."""
    for run in runs[1:]:
        if problem not in run.record.problems:
            raise UserError(
                f"{runs[0].path} is of {problem} and {run.path} of {', '.join(run.record.problems)}",
                "an ensemble needs runs of one problem",
                option="output_dir",
            )


def _target_language(run: RunDir, problem: str) -> str:
    return get_problem(problem, run.record.for_problem(problem).problem_options).target_language


def select_problems(run: RunDir, name: str = "") -> tuple[str, ...]:
    """Returns the requested problem of a run; all of them without a name, or for the name of the mixture."""
    if not name or canonical("problem", name) == canonical("problem", run.record.problem):
        return run.record.problems
    return (select_problem(run, name),)


def override_decoding(hparams: HParams, overrides: str) -> HParams:
    """Returns a run's hparams with overrides of the decode section; raises UserError for any other.

    `auto` is no other value where the run has decided by itself.
    """
    recorded = hparams.to_dict()
    changed = with_recorded_decisions(hparams.override(overrides), recorded, overrides)
    for section, values in with_recorded_decisions(hparams, recorded, "").to_dict().items():
        others = [name for name in values if section != "decode" and getattr(changed, name) != values[name]]
        if others:
            requested, found = getattr(changed, others[0]), values[others[0]]
            raise UserError(
                f"the run has {found}, and only hparams of decoding can still be changed",
                "leave it out",
                hparam=others[0],
                value=requested,
            )
    return hparams.replace(**{name: getattr(changed, name) for name in recorded["decode"]}).freeze()


def check_plugins(run: RunDir, plugins: list[Plugin]) -> None:
    """Raises UserError if a plug-in of a run's problem or model is not loaded; warns if its code has changed.

    A run directory never loads code by itself.
    """
    loaded = {(plugin.kind, plugin.name): plugin for plugin in plugins}
    problems = {f"problem:{split_variants(name)[0]}" for name in run.record.problems}
    needed = problems | {f"model:{run.record.model}"}
    for recorded in run.record.plugins:
        found = loaded.get((recorded["kind"], recorded["name"]))
        if found is not None:
            if found.fingerprint != recorded["fingerprint"]:
                log.warning("plug-in %s has changed since %s was trained with it", recorded["name"], run.path)
        elif needed & set(recorded["registered"]):
            how = "pass its folder as --t2t_usr_dir" if recorded["kind"] == "usr_dir" else "install it"
            raise UserError(
                f"{run.path} was trained with the plug-in {recorded['name']!r}, which has not been loaded", f"{how}"
            )
