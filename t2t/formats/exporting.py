"""Writes an export of a run, and keeps it only if both give the same outputs; makes inputs where there is no data.

Legend: H height, W width, C channels, L length.
"""

import json
import logging
import random
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

import t2t
from t2t.backends.base import inputs_signature
from t2t.errors import UserError
from t2t.files.atomic import LockedError, new_folder, os_errors_as_machine_errors
from t2t.files.lines import clean_line, on_one_line
from t2t.files.remote.mirror import forget_folder, is_mirrored, publish, publish_folder, remove_file
from t2t.formats.exporter import README, REPORT, UNFINISHED, Export, ExportJob, Trial, check_request, check_search
from t2t.formats.parity import Parity
from t2t.inference.rows import reads_ids
from t2t.inference.translator import Translator
from t2t.models.base import SequenceModel
from t2t.registry import EXPORTERS
from t2t.registry.overrides import PluginError, described, plugin_errors, shown
from t2t.specs import INPUTS, TARGETS, UNK_ID
from t2t.specs.features import FeatureKind, FeatureSpec
from t2t.text.encoder import TextEncoder

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
    exporter = EXPORTERS.get(job.format)
    with plugin_errors(exporter, "failed"):
        made: Export = exporter(translator, job)
    if not isinstance(made, Export) or not hasattr(made, "job"):
        raise PluginError(
            f"{described(exporter)} made {shown(made)}",
            "return a t2t.formats.exporter.Export, whose __init__ begins with super().__init__(translator, job)",
        )
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
        raise UserError(
            f"process {error} is exporting there", "name another", option="export_dir", value=job.folder
        ) from None
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
        raise UserError(f"there is nothing to try the export on: {origin}", "give --parity_file with lines of text")
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


SEED = 0
MOST_PIECES = 24
"""Largest number of pieces of a text, or length of a sequence of vectors or frames."""

_ATTEMPTS = 20
"""Attempts per text, since some pieces are white space only."""


def make_inputs(translator: Translator, count: int) -> list[Any]:
    """Returns random inputs for a run, texts or arrays; deterministic."""
    if reads_ids(translator.model):
        most = min(MOST_PIECES, translator.longest_input)
        return make_texts(translator.problem.encoders[INPUTS if translator.has_inputs else TARGETS], count, most)
    rng, spec = np.random.default_rng(SEED), translator.model.spec.inputs
    assert spec is not None, "a model without inputs reads ids"
    return [_make_array(spec, rng) for _ in range(count)]


def make_texts(encoder: TextEncoder, count: int, most_pieces: int = MOST_PIECES) -> list[str]:
    """Returns texts of random pieces of a vocabulary; fewer than `count` only if most of its pieces are blank."""
    rng, texts = random.Random(SEED), []
    first = min(UNK_ID + 1, encoder.vocab_size - 1)
    for _ in range(_ATTEMPTS * count):
        pieces = (rng.randrange(first, encoder.vocab_size) for _ in range(rng.randint(1, max(1, most_pieces))))
        text = on_one_line(clean_line(encoder.decode(pieces).encode("utf-8", "replace"), Counter()))
        if text.strip():
            texts.append(text)
        if len(texts) == count:
            break
    return texts


def make_outputs(translator: Translator, count: int) -> list[list[int]]:
    """Returns ids of random texts of the target vocabulary, without end of sequence.

    They compare an export's vocabulary with the run's even where the run's own outputs are nearly empty.
    """
    encoder = translator.problem.encoders[TARGETS]
    return [encoder.encode(text) for text in make_texts(encoder, count)]


def example_text(translator: Translator) -> str:
    """Returns a short text without words that the run's vocabulary lacks."""
    encoder = translator.problem.encoders[INPUTS if translator.has_inputs else TARGETS]
    return "a text" if encoder.lossless else "".join(make_texts(encoder, 1, 5))


def example_shape(model: SequenceModel) -> list[int]:
    """Returns the shape of an input that is not text, without the batch axis; for audio, one second."""
    spec = model.spec.inputs
    assert spec is not None, "a model without inputs reads text"
    sizes = inputs_signature(model).shape[1:]
    return [(spec.sample_rate or MOST_PIECES) if size is None else size for size in sizes]


def _make_array(spec: FeatureSpec, rng: np.random.Generator) -> np.ndarray:
    """Returns a random image (H, W, C) or clip (L, H, W, C), uint8, or audio (L,) up to a second or vectors (L, C)."""
    if spec.kind == FeatureKind.IMAGE:
        return rng.integers(0, 256, spec.shape, np.uint8)
    if spec.kind == FeatureKind.AUDIO:
        return rng.uniform(-1.0, 1.0, rng.integers(spec.sample_rate // 2, spec.sample_rate + 1)).astype(np.float32)
    shape = (int(rng.integers(1, MOST_PIECES + 1)), *spec.shape)
    if spec.kind == FeatureKind.VIDEO:
        return rng.integers(0, 256, shape, np.uint8)
    return rng.normal(size=shape).astype(np.float32)
