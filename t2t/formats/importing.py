"""What imports are asked for, and what they read: a model of another toolkit in our terms.

This module imports nothing large, so that the help is shown at once.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from t2t.hparams.base import HParams

if TYPE_CHECKING:
    from t2t.checkpoints.arrays import Arrays
    from t2t.problems.base import Problem

DEFAULT_PROBLEM = "text2text_files"
LANGUAGES = ("source_language", "target_language")
"""Options of problems: the languages of inputs and outputs, for models with language codes."""


@dataclass(frozen=True, kw_only=True)
class ImportFormat:
    """A format that can be imported."""

    module: str
    """Module with a function `read(request: ImportRequest) -> ForeignRun`."""
    folder: str
    """Description of the folder that `--model_dir` names."""
    needs: tuple[str, ...] = ()
    """Further required flags."""
    takes: tuple[str, ...] = ()
    """Further optional flags."""


TENSOR2TENSOR = "tensor2tensor"

FORMATS = {
    TENSOR2TENSOR: ImportFormat(
        module="t2t.formats.tensor2tensor.read",
        folder="the output_dir of a Tensor2Tensor run",
        needs=("vocab_file",),
        takes=("step", "target_space_id"),
    ),
    "fairseq": ImportFormat(
        module="t2t.formats.fairseq.read",
        folder="a folder with a checkpoint of fairseq (model.pt), dict.<language>.txt of both languages, and BPE codes",
    ),
    "marian": ImportFormat(
        module="t2t.formats.marian.read",
        folder="a folder with a model of Marian (.npz) and its vocabularies",
    ),
    "huggingface": ImportFormat(
        module="t2t.formats.huggingface.read",
        folder="a model's folder as save_pretrained of transformers writes it",
        takes=("source_language", "target_language"),
    ),
    "ctranslate2": ImportFormat(
        module="t2t.formats.ctranslate2.read",
        folder="a folder of CTranslate2, with its model.bin",
        takes=("sentencepiece_model",),
    ),
    "opennmt": ImportFormat(
        module="t2t.formats.opennmt.read",
        folder="a folder with one model of OpenNMT-py (*.pt), or one of Eole (config.json)",
        takes=("sentencepiece_model",),
    ),
    "opennmt_tf": ImportFormat(
        module="t2t.formats.opennmt_tf.read",
        folder="a model_dir of OpenNMT-tf 2, with its configuration (*.yml) and vocabularies",
        takes=("step", "sentencepiece_model"),
    ),
    "sockeye": ImportFormat(
        module="t2t.formats.sockeye.read",
        folder="a model's folder of Sockeye 3, with its params.best",
        takes=("sentencepiece_model",),
    ),
}
"""Value of `--from` -> format."""


@dataclass(frozen=True, kw_only=True)
class ImportRequest:
    """What to import and where to; empty and None mean the default of the format."""

    format: str = TENSOR2TENSOR
    """One of `FORMATS`."""
    model_dir: Path
    """The foreign folder."""
    output_dir: Path
    """The run directory to create."""
    problem: Problem
    """The run's problem, without vocabularies."""
    vocab_file: Path | None = None
    """The vocabulary, for formats whose folders do not contain it."""
    sentencepiece_models: tuple[Path, ...] = ()
    """SentencePiece models that split texts into the model's tokens: one for both sides, or one each."""
    step: int | None = None
    """Step of the checkpoint."""
    target_space_id: int | None = None
    """Row of Tensor2Tensor's target space embedding."""


@dataclass(frozen=True, kw_only=True)
class ForeignRun:
    """A model of another toolkit in our terms; keys of arrays are variable paths without the model's name."""

    problem: Problem
    """The problem, with its encoders."""
    model: str = "transformer"
    """Registered name."""
    hparams: HParams
    hparams_set: str = "transformer_base"
    """Name of the set that `hparams` are based on."""
    weights: Arrays
    tensors: int
    """Number of foreign tensors that became weights."""
    unused: Mapping[str, str] = field(default_factory=dict)
    """Foreign tensors that are not needed: name -> reason."""
    step: int = 0
    """Number of updates done."""
    moments: Mapping[str, Arrays] = field(default_factory=dict)
    """Adam's first (`momentum`) and second moment (`velocity`), float32; empty if unknown."""
    origin: str
    """Source of the weights, for messages: `the checkpoint in <folder>`."""
    settings: str
    """Source of the network's settings, for messages: `its config.json`."""
    notes: tuple[str, ...] = ()
    """Further lines of the report."""
    warnings: tuple[str, ...] = ()
    """Properties of the foreign model that could not be imported."""
