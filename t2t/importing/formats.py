"""The formats that can be imported; a new one is a module with `read(request) -> ForeignRun` and an entry here.

This module imports nothing large, so that the help is shown at once.
"""

from dataclasses import dataclass
from pathlib import Path


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
        module="t2t.importing.tensor2tensor.run",
        folder="the output_dir of a Tensor2Tensor run",
        needs=("vocab_file",),
        takes=("step", "target_space_id"),
    ),
    "fairseq": ImportFormat(
        module="t2t.importing.fairseq.run",
        folder="a folder with a checkpoint of fairseq (model.pt), dict.<language>.txt of both languages, and BPE codes",
    ),
    "marian": ImportFormat(
        module="t2t.importing.marian.run",
        folder="a folder with a model of Marian (.npz) and its vocabularies",
    ),
    "huggingface": ImportFormat(
        module="t2t.importing.huggingface.run",
        folder="a model's folder as save_pretrained of transformers writes it",
        takes=("source_language", "target_language"),
    ),
    "ctranslate2": ImportFormat(
        module="t2t.importing.ctranslate2.run",
        folder="a folder of CTranslate2, with its model.bin",
        takes=("sentencepiece_model",),
    ),
    "opennmt": ImportFormat(
        module="t2t.importing.opennmt.run",
        folder="a folder with one model of OpenNMT-py (*.pt), or one of Eole (config.json)",
        takes=("sentencepiece_model",),
    ),
    "opennmt_tf": ImportFormat(
        module="t2t.importing.opennmt_tf.run",
        folder="a model_dir of OpenNMT-tf 2, with its configuration (*.yml) and vocabularies",
        takes=("step", "sentencepiece_model"),
    ),
    "sockeye": ImportFormat(
        module="t2t.importing.sockeye.run",
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
    problem: str = ""
    """Name of the run's problem."""
    vocab_file: Path | None = None
    """The vocabulary, for formats whose folders do not contain it."""
    sentencepiece_models: tuple[Path, ...] = ()
    """SentencePiece models that split texts into the model's tokens: one for both sides, or one each."""
    step: int | None = None
    """Step of the checkpoint."""
    target_space_id: int | None = None
    """Row of Tensor2Tensor's target space embedding."""
    source_language: str = ""
    """Language of inputs, for models with language codes."""
    target_language: str = ""
    """Language of outputs, for models with language codes."""
