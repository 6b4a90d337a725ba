"""The formats that can be imported; a new one is a module with `read(request) -> ForeignRun` and a line here.

This module loads nothing, so that the help answers at once.
"""

from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, kw_only=True)
class Format:
    """How a format is read."""

    module: str
    """Module with a function `read(request: ImportRequest) -> ForeignRun`."""
    folder: str
    """What `--model_dir` names."""
    needs: tuple[str, ...] = ()
    """Further flags that must be given."""
    takes: tuple[str, ...] = ()
    """Further flags that may be given."""


TENSOR2TENSOR = "tensor2tensor"

FORMATS = {
    TENSOR2TENSOR: Format(
        module="t2t.importing.tensor2tensor.run",
        folder="the output_dir of a Tensor2Tensor run",
        needs=("vocab_file",),
        takes=("step", "target_space_id"),
    ),
    "fairseq": Format(
        module="t2t.importing.fairseq.run",
        folder="a folder with a checkpoint of fairseq (model.pt), dict.<language>.txt of both languages, and BPE codes",
    ),
    "marian": Format(
        module="t2t.importing.marian.run",
        folder="a folder with a model of Marian (.npz) and its vocabularies",
    ),
    "huggingface": Format(
        module="t2t.importing.huggingface.run",
        folder="a model's folder as save_pretrained of transformers writes it",
        takes=("source_language", "target_language"),
    ),
    "ctranslate2": Format(
        module="t2t.importing.ctranslate2.run",
        folder="a folder of CTranslate2, with its model.bin",
        takes=("sentencepiece_model",),
    ),
    "opennmt": Format(
        module="t2t.importing.opennmt.run",
        folder="a folder with one model of OpenNMT-py (*.pt), or one of Eole (config.json)",
        takes=("sentencepiece_model",),
    ),
    "opennmt_tf": Format(
        module="t2t.importing.opennmt_tf.run",
        folder="a model_dir of OpenNMT-tf 2, with its configuration (*.yml) and vocabularies",
        takes=("step", "sentencepiece_model"),
    ),
    "sockeye": Format(
        module="t2t.importing.sockeye.run",
        folder="a model's folder of Sockeye 3, with its params.best",
        takes=("sentencepiece_model",),
    ),
}
"""By the value of `--from`."""


@dataclass(frozen=True, kw_only=True)
class ImportRequest:
    """What to import and where to; what is empty or None is what the format says."""

    format: str = TENSOR2TENSOR
    """One of `FORMATS`."""
    model_dir: Path
    """The foreign folder."""
    output_dir: Path
    """The run directory to make."""
    problem: str = ""
    """Name of the problem that the run is of."""
    vocab_file: Path | None = None
    """The vocabulary, for formats whose folder has none."""
    sentencepiece_models: tuple[Path, ...] = ()
    """SentencePiece models that cut texts into the tokens of a list: one for both sides, or one each."""
    step: int | None = None
    """Step of the checkpoint."""
    target_space_id: int | None = None
    """Row of Tensor2Tensor's table of target spaces."""
    source_language: str = ""
    """Language of inputs, of models with language codes."""
    target_language: str = ""
    """Language of outputs, of models with language codes."""
