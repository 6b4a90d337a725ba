"""The exporters and importers that come with t2t; what each does is loaded when it is used."""

from pathlib import Path
from typing import Any

from t2t.formats.exporter import needs
from t2t.formats.importer import reads
from t2t.formats.parity import FLOAT16, FLOAT32, INT8
from t2t.registry import register_exporter, register_importer

# === Exporters ===


@register_exporter("saved_model")
def export_saved_model(translator: Any, job: Any) -> Any:
    """TensorFlow SavedModel: text in, text out, with the search of the run."""
    from t2t.formats.saved_model.write import SavedModelExport

    return SavedModelExport(translator, job)


@register_exporter("ctranslate2")
@needs((FLOAT32, INT8), ("ctranslate2",), "ctranslate2")
def export_ctranslate2(translator: Any, job: Any) -> Any:
    """CTranslate2: decodes several times faster on CPUs, with a search of its own."""
    from t2t.formats.ctranslate2.write import CTranslate2Export

    return CTranslate2Export(translator, job)


@register_exporter("marian")
def export_marian(translator: Any, job: Any) -> Any:
    """Marian: `model.npz`, vocabularies and `decoder.yml`."""
    from t2t.formats.marian.write import MarianExport

    return MarianExport(translator, job)


@register_exporter("onnx")
@needs(packages=("tf2onnx", "onnxruntime"), extra="onnx")
def export_onnx(translator: Any, job: Any) -> Any:
    """ONNX: graphs for what is computed once and for a step, and a script that searches."""
    from t2t.formats.onnx import OnnxExport

    return OnnxExport(translator, job)


@register_exporter("huggingface")
@needs(packages=("transformers", "torch"), extra="huggingface")
def export_huggingface(translator: Any, job: Any) -> Any:
    """The library transformers: a model of Marian or T5, its tokenizer and a model card."""
    from t2t.formats.huggingface.write import HuggingFaceExport

    return HuggingFaceExport(translator, job)


@register_exporter("litert")
@needs((FLOAT32, FLOAT16, INT8), ("ai_edge_litert",), "litert")
def export_litert(translator: Any, job: Any) -> Any:
    """LiteRT, formerly TensorFlow Lite: the graphs of ONNX in one file, for small devices."""
    from t2t.formats.litert import LiteRtExport

    return LiteRtExport(translator, job)


# === Importers ===


def _problem_of_flags(model_dir: Path) -> str:
    from t2t.formats.tensor2tensor.hparams import named_problem

    return named_problem(model_dir)


@register_importer("tensor2tensor")
@reads("the output_dir of a Tensor2Tensor run", ("vocab_file",), ("step", "target_space_id"), _problem_of_flags)
def import_tensor2tensor(request: Any) -> Any:
    """A run of Tensor2Tensor: `hparams.json`, a checkpoint and its vocabulary."""
    from t2t.formats.tensor2tensor.read import read

    return read(request)


@register_importer("fairseq")
@reads("a folder with a checkpoint of fairseq (model.pt), dict.<language>.txt of both languages, and BPE codes")
def import_fairseq(request: Any) -> Any:
    """A translator of fairseq: a checkpoint, two dictionaries, and BPE codes or a SentencePiece model."""
    from t2t.formats.fairseq import read

    return read(request)


@register_importer("marian")
@reads("a folder with a model of Marian (.npz) and its vocabularies")
def import_marian(request: Any) -> Any:
    """A model of Marian: `model.npz` with its settings, and its vocabularies."""
    from t2t.formats.marian.read import read

    return read(request)


@register_importer("huggingface")
@reads("a model's folder as save_pretrained of transformers writes it", takes=("source_language", "target_language"))
def import_huggingface(request: Any) -> Any:
    """A model of the library transformers: Marian, T5, mT5, M2M-100, NLLB or mBART."""
    from t2t.formats.huggingface.read import read

    return read(request)


@register_importer("ctranslate2")
@reads("a folder of CTranslate2, with its model.bin", takes=("sentencepiece_model",))
def import_ctranslate2(request: Any) -> Any:
    """A Transformer of CTranslate2 from any converter, with an encoder and a decoder."""
    from t2t.formats.ctranslate2.read import read

    return read(request)


@register_importer("opennmt")
@reads("a folder with one model of OpenNMT-py (*.pt), or one of Eole (config.json)", takes=("sentencepiece_model",))
def import_opennmt(request: Any) -> Any:
    """A model of OpenNMT-py, or of Eole, its successor."""
    from t2t.formats.opennmt import read

    return read(request)


@register_importer("opennmt_tf")
@reads(
    "a model_dir of OpenNMT-tf 2, with its configuration (*.yml) and vocabularies",
    takes=("step", "sentencepiece_model"),
)
def import_opennmt_tf(request: Any) -> Any:
    """A Transformer of OpenNMT-tf 2."""
    from t2t.formats.opennmt_tf import read

    return read(request)


@register_importer("sockeye")
@reads("a model's folder of Sockeye 3, with its params.best", takes=("sentencepiece_model",))
def import_sockeye(request: Any) -> Any:
    """A Transformer of Sockeye 3."""
    from t2t.formats.sockeye import read

    return read(request)
