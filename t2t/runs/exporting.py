"""From a run directory to an export: which model, and what to try it on."""

import dataclasses
import itertools
import logging
from collections import Counter
from pathlib import Path
from typing import Any

from t2t.constants import DEV, INPUTS, TARGETS
from t2t.errors import UserError
from t2t.export.exporting import check_folder, export
from t2t.export.job import ExportJob
from t2t.export.parity import Parity
from t2t.features import FeatureKind
from t2t.inference import Translator
from t2t.inference.batch_answer import most_answers
from t2t.inference.rows import reads_ids
from t2t.paths import local_path
from t2t.runs.evaluation import arrays_of, open_run_data, texts_of
from t2t.runs.loading import LoadedRun
from t2t.text.lines import read_lines

__all__ = ["Wanted", "check_folder", "export_run"]

log = logging.getLogger("t2t")


@dataclasses.dataclass(frozen=True, kw_only=True)
class Wanted:
    """What a user asks for."""

    folder: Path
    format: str
    quantization: str
    n_best: int | None
    """None for 1, or all classes."""
    parity_file: str
    """Lines to try it on; empty for the dev split."""
    parity_lines: int
    data_dir: str


def export_run(loaded: LoadedRun, wanted: Wanted) -> dict[str, Parity]:
    """Makes an export of a run; returns how the two compare, see `t2t.export.exporting.export`.

    Raises:
        UserError: the format cannot hold the model, nothing to try it on, or see `export`.
        ParityError: the export does not answer as the run does.
        MachineError: it cannot be written.
    """
    record, translator = loaded.record, loaded.translator()
    job = ExportJob(
        folder=wanted.folder,
        format=wanted.format,
        quantization=wanted.quantization,
        n_best=wanted.n_best or _usual_n_best(translator),
        origin={
            "problem": record.problem,
            "model": record.model,
            "hparams_set": record.hparams_set,
            "checkpoint": loaded.checkpoint.name,
            "step": loaded.checkpoint.step,
        },
    )
    return export(translator, job, _trial_inputs(loaded, translator, wanted))


def _usual_n_best(translator: Translator) -> int:
    return most_answers(translator.model) if translator.model.spec.targets.kind == FeatureKind.LABEL else 1


def _trial_inputs(loaded: LoadedRun, translator: Translator, wanted: Wanted) -> list[Any]:
    if wanted.parity_file:
        if not reads_ids(translator.model):
            raise UserError(
                f"--parity_file: the inputs of {loaded.problem.name} are no text; leave it out, so that the dev "
                f"split of --data_dir is taken"
            )
        return list(itertools.islice(read_lines(local_path(wanted.parity_file), Counter()), wanted.parity_lines))
    try:
        data = open_run_data(loaded.run, wanted.data_dir, loaded.problem.name, DEV)
    except UserError as error:
        raise UserError(f"{error}; or give lines of text to try the export on with --parity_file") from None
    reader, columns, limit = data.readers[DEV], data.problem.columns, wanted.parity_lines
    if not reads_ids(translator.model):
        return list(arrays_of(reader, limit, (columns or {}).get(INPUTS, INPUTS)))
    if translator.has_inputs:
        return texts_of(data.problem, reader, columns, limit)
    return [text[: len(text) // 2] for text in texts_of(data.problem, reader, columns, limit, TARGETS)]
