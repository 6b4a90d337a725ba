"""Writes an export of a run, and keeps it only if both give the same outputs."""

import json
import logging
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import t2t
from t2t.errors import UserError
from t2t.files.atomic import LockedError, new_folder, os_errors_as_machine_errors
from t2t.files.remote.mirror import forget_folder, is_mirrored, publish, publish_folder, remove_file
from t2t.formats.exporter import README, REPORT, UNFINISHED, Export, ExportJob, Trial, check_request, check_search
from t2t.formats.parity import Parity
from t2t.inference.translator import Translator
from t2t.registry import EXPORTERS

log = logging.getLogger("t2t")


def export(
    translator: Translator, job: ExportJob, inputs: Sequence[Any], origin: str = "inputs of the caller"
) -> dict[str, Parity]:
    """Writes an export, compares it with the run, and moves it to its final folder; returns the comparisons by name.

    `inputs` are texts, of which blank ones are skipped, or arrays; `origin` describes them in the report.

    Raises:
        UserError: see `check_request` and `check_search`; no inputs, or a model or setting that the format does not
            support.
        ParityError: the outputs of the export differ from the run's.
        MachineError: the folder cannot be written.
    """
    check_request(job.format, job.quantization, job.folder)
    made: Export = EXPORTERS.get(job.format)(translator, job)
    check_search(made)
    if not made.keeps_constraints and translator.constrains_outputs(job.n_best):
        log.warning(
            "--format=%s: the export may write outputs that %s does not allow, as with constrain_output=false; "
            "t2t-decoder and --format=saved_model keep to those that it allows",
            job.format,
            translator.problem.name,
        )
    forget_folder(job.folder)  # of an earlier attempt whose upload failed
    trial = _trial(translator, inputs, origin)
    try:
        with os_errors_as_machine_errors(f"cannot write {job.folder}"), new_folder(job.folder) as folder:
            made.write(folder)
            log.info("written; comparing it with the run on %s inputs, %s", f"{len(trial.rows):,}", trial.origin)
            parity = made.verify(folder, trial)
            (folder / REPORT).write_text(json.dumps(_report(job, trial, parity), indent=2) + "\n", encoding="utf-8")
            (folder / README).write_text(_readme(job, made), encoding="utf-8")
    except LockedError as error:
        raise UserError(f"--export_dir={job.folder}: process {error} is exporting there; name another") from None
    with os_errors_as_machine_errors(f"cannot write {job.folder}"):
        _publish(job.folder)
    return parity


def _publish(folder: Path) -> None:
    """Uploads an export to the object store that its folder mirrors; until it is complete, it may be replaced."""
    if is_mirrored(folder):
        (folder / UNFINISHED).touch()
        publish(folder / UNFINISHED)
        publish_folder(folder, REPORT)
        remove_file(folder / UNFINISHED)


def _trial(translator: Translator, inputs: Sequence[Any], origin: str) -> Trial:
    is_text = bool(inputs) and isinstance(inputs[0], str)
    if is_text and translator.has_inputs:
        inputs = [text for text in inputs if text.strip()]
    if not inputs:
        raise UserError(f"there is nothing to try the export on: {origin}; give --parity_file with lines of text")
    return Trial(translator.encode(inputs), inputs, origin) if is_text else Trial(inputs, None, origin)


def _report(job: ExportJob, trial: Trial, parity: dict[str, Parity]) -> dict[str, Any]:
    return {
        "format": job.format,
        "quantization": job.quantization,
        "n_best": job.n_best,
        "run": dict(job.origin),
        "t2t": t2t.__version__,
        "made": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
        "inputs": trial.origin,
        "parity": {what: found.to_dict() for what, found in parity.items()},
    }


def _readme(job: ExportJob, made: Export) -> str:
    of = ", ".join(f"{name} {value}" for name, value in job.origin.items())
    finished = ""
    if made.translator.rewrites_text:
        finished = "\nOutputs are as the model writes them; what `t2t-decoder` makes of them is not included.\n"
    title = f"{made.front_matter()}# {job.name}"
    return f"{title}\n\nMade by t2t {t2t.__version__} of {of}.\n\n{made.usage().strip()}\n{finished}"
