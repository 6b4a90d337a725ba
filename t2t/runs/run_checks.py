"""Checks of a requested run that do not load TensorFlow."""

import logging

from t2t.checkpoints.run_dir import RunDir
from t2t.checkpoints.store import LATEST, CheckpointStore
from t2t.errors import UserError
from t2t.hparams.base import HParams
from t2t.registry import HPARAMS
from t2t.registry.plugins import Plugin
from t2t.runs.names import canonical, get_hparams, split_variants

log = logging.getLogger("t2t")


def check_loadable(run: RunDir, plugins: list[Plugin], checkpoint: str = LATEST, decode_overrides: str = "") -> None:
    """Checks that a run can be loaded, without reading weights.

    Args:
        run: opened.
        plugins: those that are loaded.
        checkpoint: which one, see `CheckpointStore.find`.
        decode_overrides: hparams of decoding to change.

    Raises:
        UserError: a plug-in is missing, there is no such checkpoint, or a change is wrong.
    """
    check_plugins(run, plugins)
    check_checkpoint(CheckpointStore(run.checkpoints_folder), checkpoint)
    if decode_overrides and run.record.hparams_set in HPARAMS:
        override_decoding(get_hparams(run.record.hparams_set).from_dict(run.record.hparams), decode_overrides)


def check_checkpoint(store: CheckpointStore, which: str) -> None:
    """Raises UserError where a store has no such checkpoint; reads none."""
    if which != LATEST or not store.steps():
        store.find(which)


def select_problem(run: RunDir, name: str = "") -> str:
    """Returns the requested problem of a run, as the run names it.

    Raises:
        UserError: the run is not of it, or of several and none is named.
    """
    names = run.record.problems
    listed = ", ".join(names)
    if not name and len(names) == 1:
        return names[0]
    if not name:
        raise UserError(f"the run in {run.path} is of several problems; name one with --problem: {listed}")
    found = [one for one in names if canonical("problem", one) == canonical("problem", name)]
    if not found:
        raise UserError(f"--problem={name}: the run in {run.path} is of {listed}; name one of these")
    return found[0]


def select_problems(run: RunDir, name: str = "") -> tuple[str, ...]:
    """Returns the requested problems of a run; all where none or the mixture is named."""
    if not name or canonical("problem", name) == canonical("problem", run.record.problem):
        return run.record.problems
    return (select_problem(run, name),)


def override_decoding(hparams: HParams, overrides: str) -> HParams:
    """Returns hparams with overrides of the decode section.

    Raises:
        UserError: an override that is wrong, or of another section.
    """
    changed = hparams.override(overrides)
    for section, values in hparams.to_dict().items():
        others = [name for name in values if section != "decode" and getattr(changed, name) != getattr(hparams, name)]
        if others:
            raise UserError(f"hparam {others[0]} is no part of decoding; a trained run's can no longer be changed")
    return changed.freeze()


def check_plugins(run: RunDir, plugins: list[Plugin]) -> None:
    """Demands the plug-ins that a run's problem or model came from; warns where their code has changed.

    Raises:
        UserError: one has not been loaded; a run directory never loads a stranger's code by itself.
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
                f"{run.path} was trained with the plug-in {recorded['name']!r}, which has not been loaded; {how}"
            )
