"""From a run to an export, which is kept only once it has answered as the run does."""

import contextlib
import json
import logging
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import t2t
from t2t.atomic import LockedError, new_folder, os_errors_as_machine_errors
from t2t.errors import UnknownNameError, UserError
from t2t.export.ctranslate2_model import CTranslate2Export
from t2t.export.job import README, REPORT, Export, ExportJob, Trial
from t2t.export.onnx_graphs import OnnxExport
from t2t.export.parity import Parity
from t2t.export.saved_model import SavedModelExport
from t2t.inference import Translator

FORMATS: dict[str, type[Export]] = {
    "saved_model": SavedModelExport,
    "ctranslate2": CTranslate2Export,
    "onnx": OnnxExport,
}
"""By name."""

log = logging.getLogger("t2t")


def export(translator: Translator, job: ExportJob, inputs: Sequence[Any]) -> dict[str, Parity]:
    """Makes an export, tries it, and gives it its name.

    Args:
        translator: of the run.
        job: what to make.
        inputs: texts to try it on, or arrays of what is no text; blank texts, which no model is asked, are left out.

    Returns:
        how its answers compare with the run's, by what was asked; the report in its folder says so, too.

    Raises:
        UserError: something is there already, nothing to try it on, or a model or setting that the format cannot hold.
        ParityError: the export does not answer as the run does.
        MachineError: the folder cannot be written.
    """
    check_folder(job.folder)
    if job.format not in FORMATS:
        raise UnknownNameError(f"--format={job.format}: there is no such format; ask for one of {', '.join(FORMATS)}")
    made = FORMATS[job.format](translator, job)
    if job.quantization not in made.quantizations:
        raise UserError(
            f"--quantization={job.quantization}: {job.format} has {', '.join(made.quantizations)}; ask for that"
        )
    trial = _trial(translator, inputs)
    with (
        _alone(job.folder),
        os_errors_as_machine_errors(f"cannot write {job.folder}"),
        new_folder(job.folder) as folder,
    ):
        made.write(folder)
        log.info("written; asking it and the run %s inputs", f"{len(trial.rows):,}")
        parity = made.prove(folder, trial)
        (folder / REPORT).write_text(json.dumps(_report(job, parity), indent=2) + "\n", encoding="utf-8")
        (folder / README).write_text(_readme(job, made), encoding="utf-8")
    return parity


@contextlib.contextmanager
def _alone(folder: Path) -> Iterator[None]:
    try:
        yield
    except LockedError as error:
        raise UserError(f"--export_dir={folder}: process {error} is exporting there; name another") from None


def check_folder(folder: Path) -> None:
    """Raises UserError where the folder of an export is there already."""
    if folder.exists():
        raise UserError(f"--export_dir={folder}: it is there already; name another, or remove it first")


def _trial(translator: Translator, inputs: Sequence[Any]) -> Trial:
    is_text = bool(inputs) and isinstance(inputs[0], str)
    if is_text and translator.has_inputs:
        inputs = [text for text in inputs if text.strip()]
    if not inputs:
        raise UserError("there is nothing to try the export on; give --parity_file with lines of text")
    return Trial(translator.encode(inputs), inputs) if is_text else Trial(inputs, None)


def _report(job: ExportJob, parity: dict[str, Parity]) -> dict[str, Any]:
    return {
        "format": job.format,
        "quantization": job.quantization,
        "n_best": job.n_best,
        "run": dict(job.origin),
        "t2t": t2t.__version__,
        "made": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
        "parity": {what: found.to_dict() for what, found in parity.items()},
    }


def _readme(job: ExportJob, made: Export) -> str:
    of = ", ".join(f"{name} {value}" for name, value in job.origin.items())
    return f"# {job.folder.name}\n\nMade by t2t {t2t.__version__} of {of}.\n\n{made.usage().strip()}\n"
