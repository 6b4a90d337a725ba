"""Loads runs of adapters that share the weights of a base that is already loaded."""

import logging
from collections.abc import Sequence

from t2t.checkpoints.adapters import AdapterBase, check_fits
from t2t.checkpoints.checkpoint import EMA, MODEL, Checkpoint
from t2t.checkpoints.compatibility import check_same_architecture, check_same_vocabularies
from t2t.checkpoints.run_dir import RECORD_FILE, run_and_checkpoint
from t2t.checkpoints.store import LATEST, CheckpointStore
from t2t.errors import UserError
from t2t.runs.loading import LoadedRun, once, open_to_decode
from t2t.runs.startup import prepare_framework

log = logging.getLogger("t2t")


def load_adapters(
    bases: Sequence[LoadedRun],
    folder: str,
    t2t_usr_dir: str | None = None,
    decode_overrides: str = "",
    problem: str = "",
) -> LoadedRun:
    """Loads a run of adapters, which shares the weights of its base and decodes with its own hparams.

    Args:
        bases: loaded runs; one must hold the checkpoint that the adapters change.
        folder: of the run, to load its latest checkpoint, or of one of its checkpoints.
        t2t_usr_dir: see `t2t.load`.
        decode_overrides: see `t2t.runs.loading.load`.
        problem: see `t2t.load`.

    Raises:
        UserError: see `t2t.runs.loading.load`; a checkpoint without adapters, or of another base or problem.
    """
    output_dir, which = run_and_checkpoint(folder)
    run, own_problem, hparams = open_to_decode(output_dir, t2t_usr_dir, decode_overrides, problem)
    read = CheckpointStore(run.checkpoints_folder).load(which or LATEST, (MODEL, EMA))
    adapts, base = _base_of(read, folder, bases)
    check_same_vocabularies(read, run.record.vocabularies, hparams.shared_modalities, run.path, f"--adapters={folder}")
    check_same_architecture(read, run.record.model, hparams, run.path / RECORD_FILE)
    check_fits(read, base.checkpoint.weights)
    if base.run.record.spec.members and base.problem.name != own_problem.name:
        raise UserError(
            f"--adapters={folder}: it is loaded for {own_problem.name}, and its base in {base.run.path} for "
            f"{base.problem.name}; name one --problem for both"
        )

    def build():
        prepare_framework()
        from t2t.runs.building import adapt_model

        return adapt_model(base.build(), read.weights, adapts.scale)

    log.info("loaded adapters %s of %s (%d updates)", read.folder, base.checkpoint.folder, read.step)
    return LoadedRun(run, own_problem, once(build), hparams, read)


def _base_of(read: Checkpoint, folder: str, bases: Sequence[LoadedRun]) -> tuple[AdapterBase, LoadedRun]:
    adapts = AdapterBase.from_state(read.state)
    if adapts is None:
        raise UserError(
            f"--adapters={folder}: checkpoint {read.folder} holds whole weights; name a run that trained adapters "
            f"(hparam lora_rank), or name it in --output_dir"
        )
    for base in bases:
        if base.checkpoint.fingerprint == adapts.fingerprint:
            return adapts, base
    loaded = ", ".join(str(base.checkpoint.folder) for base in bases) or "none"
    raise UserError(
        f"--adapters={folder}: they change the weights of {adapts.path}, and what is loaded is {loaded}; load that "
        f"checkpoint as the base, or name {folder} in --output_dir by itself"
    )
