"""Exports a run, and chooses the inputs to compare both on."""

import itertools
import logging
from collections import Counter
from pathlib import Path
from typing import Any

from t2t.backends import check_tensorflow
from t2t.errors import UserError
from t2t.files.lines import read_lines
from t2t.files.paths import local_path
from t2t.files.remote.mirror import fetch
from t2t.formats.exporter import OTHER_INPUTS, SAVED_MODEL, ExportJob
from t2t.formats.exporting import SEED, export, make_inputs
from t2t.formats.parity import Parity
from t2t.inference.rows import max_answers, reads_ids
from t2t.inference.split_examples import SplitExamples
from t2t.inference.translator import Translator
from t2t.runs.data import open_run_data
from t2t.runs.loading import LoadedRun
from t2t.specs import DEFAULT_DATA_DIR, DEV, INPUTS, TARGETS
from t2t.specs.features import FeatureKind

log = logging.getLogger("t2t")


def export_run(
    loaded: LoadedRun,
    folder: Path,
    format: str,
    quantization: str,
    n_best: int | None,
    parity_file: str,
    parity_lines: int,
    data_dir: str,
) -> dict[str, Parity]:
    """Exports a run; see `t2t.export_model` for the arguments and `t2t.formats.exporting.export` for the rest."""
    check_tensorflow("exports are made by TensorFlow")
    if loaded.hparams.shortlist:
        raise UserError("an export searches all pieces", "leave it out", hparam="shortlist", value="True")
    tags = getattr(loaded.problem.options, "language_tags", "")
    if tags and format != SAVED_MODEL:
        raise UserError(
            f"the inputs of the run begin with a tag, which --format={format} has no place for",
            f"export it with --format={SAVED_MODEL}",
            option="language_tags",
            value=tags,
        )
    record, translator = loaded.record, loaded.translator()
    gives_classes = translator.model.spec.targets.kind == FeatureKind.LABEL
    job = ExportJob(
        folder=folder,
        format=format,
        quantization=quantization,
        asked=loaded.requested,
        n_best=n_best or (max_answers(translator.model) if gives_classes else 1),
        origin={
            "problem": record.problem,
            "model": record.model,
            "hparams_set": record.hparams_set,
            "checkpoint": loaded.checkpoint.name,
            "step": loaded.checkpoint.step,
        },
        run=loaded.run,
    )
    return export(translator, job, *_trial_inputs(loaded, translator, parity_file, parity_lines, data_dir))


def _trial_inputs(
    loaded: LoadedRun, translator: Translator, parity_file: str, limit: int, data_dir: str
) -> tuple[list[Any], str]:
    """Returns the inputs to compare on, and where they come from."""
    if parity_file:
        if not reads_ids(translator.model):
            raise UserError(
                f"the inputs of {loaded.problem.name} are not text",
                "leave it out, so that the dev split of --data_dir is taken",
                option="parity_file",
            )
        file = local_path(parity_file)
        fetch(file)
        return list(itertools.islice(read_lines(file, Counter()), limit)), f"lines of {file.name}"
    try:
        return _dev_inputs(loaded, translator, data_dir or DEFAULT_DATA_DIR, limit)
    except UserError as error:
        if data_dir:
            raise UserError(f"{error}", f"{OTHER_INPUTS}") from None
        made = "texts made of the run's vocabulary" if reads_ids(translator.model) else "inputs"
        # A run directory may come from a stranger: the data that it names is read only if the user names it too.
        hint = f" (its data was in {loaded.record.data_dir}: name it with --data_dir)" if loaded.record.data_dir else ""
        log.info("%s does not have the run's data; comparing on random %s%s", DEFAULT_DATA_DIR, made, hint)
        return make_inputs(translator, limit), f"random {made}, seed {SEED}"


def _dev_inputs(loaded: LoadedRun, translator: Translator, data_dir: str, limit: int) -> tuple[list[Any], str]:
    data = open_run_data(loaded.run, data_dir, loaded.problem.name, DEV)
    origin = f"the {DEV} split of {loaded.problem.name}"
    examples = SplitExamples(data.problem, data.readers[DEV], limit)
    if not reads_ids(translator.model):
        return list(examples.arrays(INPUTS)), origin
    if translator.has_inputs:
        return examples.texts(), origin
    return [text[: len(text) // 2] for text in examples.texts(TARGETS)], origin
