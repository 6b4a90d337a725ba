"""Imports Marian models of `type: transformer`.

The network is the paper's Transformer with biases in attention and on logits, Tensor2Tensor's sinusoids, a decoder that
starts from zeros, and norms at the positions given by strings of letters. Source: Junczys-Dowmunt et al. 2018, *Marian:
Fast Neural Machine Translation in C++*, and its code, `models/transformer.h`.

Legend: D width, V vocabulary, L positions.
"""

import re
from collections.abc import Sequence
from typing import Any

import numpy as np

from t2t.checkpoints.arrays import Arrays
from t2t.errors import UserError
from t2t.formats.importer import ForeignRun, ImportRequest, alignment_hparams, unknown_values
from t2t.formats.marian.files import ModelFiles
from t2t.formats.marian.mapping import ACTIVATIONS, EPSILON, NORM_LETTERS, OUTPUT, SETTINGS, stack_names
from t2t.formats.marian.vocabulary import MarianVocabulary, read_vocabulary
from t2t.formats.tensors import Tensors
from t2t.hparams.transformer import TransformerHParams
from t2t.hparams.transformer_marian import transformer_marian
from t2t.specs.constants import INPUTS, PAD_ID, TARGETS

PAD_BIAS = -100.0
"""Logit bias of an added padding id: its probability is negligible, but losses with label smoothing stay small."""

_FALSE = (False, None)
_KNOWN: dict[str, tuple[Any, ...]] = {
    "type": ("transformer",), "transformer-decoder-autoreg": ("self-attention",),
    "transformer-ffn-activation": tuple(ACTIVATIONS), "transformer-ffn-depth": (2,),
    "transformer-decoder-ffn-depth": (0, 2, None), "transformer-no-projection": _FALSE, "transformer-pool": _FALSE,
    "transformer-tied-layers": ([], None), "transformer-no-bias": _FALSE, "transformer-no-affine": _FALSE,
    "transformer-disable-position-embeddings": _FALSE, "transformer-attention-mask": ("default", None),
    "lemma-dim-emb": (0, None), "factors-dim-emb": (0, None), "ulr": _FALSE, "right-left": _FALSE,
    "input-types": ([], None, ["sequence", "sequence"]),
}  # fmt: skip
_FORMS = {("", "a{}", ""): "post", ("{}", "a", "{}"): "pre"}
"""Letters before and after sub-layers and after a stack, without dropout -> `norm_position`."""
_NORMS_KEYS = (1, 11)
"""From this version on, pre-norm self-attention also norms keys and values."""


def read(request: ImportRequest) -> ForeignRun:
    """Reads a folder with a model and its vocabularies.

    Raises:
        UserError: a file is missing or damaged, or the network differs from the Transformer here.
    """
    files = ModelFiles(request.model_dir)
    hparams = _hparams(files)
    tensors = Tensors({n: a for n, a in files.archive.items() if n != SETTINGS}, str(files.folder / files.model))
    if rounded := [name for name, array in files.archive.items() if name != SETTINGS and array.dtype.kind != "f"]:
        raise UserError(f"{files.folder / files.model}: {rounded[0]} is no float; give the model before quantization")
    names = _table_names(hparams)
    sizes = [len(tensors.take(names[which])) for which in ("source_embedding", "target_embedding")]
    files_of = files.vocabularies()
    source, target = (
        read_vocabulary(files, name, side, rows)
        for name, side, rows in zip(files_of, ("source", "target"), sizes, strict=True)
    )
    if hparams.shared_embedding and source.encoder.ids_fingerprint != target.encoder.ids_fingerprint:
        raise UserError(f"{files.folder}: {' and '.join(files_of)} differ, and the model has one table for both")
    problem = request.problem.with_encoders({INPUTS: source.encoder, TARGETS: target.encoder})
    weights = _weights(tensors, hparams, source, target, _is_tied(files))
    tensors.drop("decoder_c_tt", "not used by Transformers")
    alignment, warnings = alignment_hparams(_alignment_layer(files), 1, hparams)
    return ForeignRun(
        problem=problem,
        hparams=hparams.replace(**alignment),
        hparams_set="transformer_marian",
        weights=weights,
        unused=tensors.finish(),
        tensors=tensors.taken,
        origin=f"the model in {files.folder / files.model}",
        settings="its settings and vocabularies",
        notes=tuple(f"{side}: {found.described}" for side, found in (("source", source), ("target", target))),
        warnings=(*_warnings(files), *warnings),
    )


def _alignment_layer(files: ModelFiles) -> int | None:
    """Returns the index of the layer with the alignments, in its first head; None if the settings name none."""
    layer = str(files.settings.get("transformer-guided-alignment-layer"))
    if layer == "last":
        return -1
    return int(layer) - 1 if layer.isdecimal() else None


def _warnings(files: ModelFiles) -> tuple[str, ...]:
    found, penalty = [], files.decoder.get("word-penalty") or 0
    if penalty:
        found.append(f"decoder.yml has word-penalty={penalty}, which the search here does not have")
    if files.decoder.get("allow-unk") is not True:
        found.append("decoder.yml has no allow-unk: true, so Marian writes no <unk>; the search here may write it")
    return tuple(found)


def _hparams(files: ModelFiles) -> TransformerHParams:
    """Returns the hparams of the network, with `transformer_marian`'s values for training."""
    settings, where = files.settings, files.folder / files.model
    wrong = unknown_values(settings, _KNOWN)
    inner = _need(files, "transformer-dim-ffn")
    inner_of_decoder = _need(files, "transformer-decoder-dim-ffn") if settings.get("transformer-decoder-dim-ffn") else 0
    steps = [_letters(settings, name) for name in ("preprocess", "postprocess", "postprocess-top")]
    forms = {tuple(step.format(c) for step in form): (p, n) for form, p in _FORMS.items() for n, c in _norms()}
    if tuple(steps) not in forms:
        found = ", ".join(map(repr, steps))
        wrong.append(f"transformer-preprocess, -postprocess and -postprocess-top are {found} without dropout")
    if _letters(settings, "postprocess-emb"):
        wrong.append(f"transformer-postprocess-emb={settings['transformer-postprocess-emb']!r} (known: 'd', '')")
    if wrong:
        raise UserError(
            f"{where} describes another network than the models here: {'; '.join(wrong)}; it cannot be imported"
        )
    norm_position, norm_type = forms[tuple(steps)]
    if norm_position == "pre":
        _check_version(files)
    is_source = bool(settings.get("tied-embeddings-all") or settings.get("tied-embeddings-src"))
    learned = files.archive.get("Wpos")
    recipe = transformer_marian()
    return recipe.replace(
        hidden_size=_need(files, "dim-emb"),
        num_encoder_layers=_need(files, "enc-depth"),
        num_decoder_layers=_need(files, "dec-depth"),
        num_heads=_need(files, "transformer-heads"),
        filter_size=inner,
        decoder_filter_size=0 if inner_of_decoder == inner else inner_of_decoder,
        activation=ACTIVATIONS[settings.get("transformer-ffn-activation") or "swish"],
        norm_position=norm_position,
        norm_type=norm_type,
        norm_epsilon=EPSILON,
        positions="sinusoidal" if learned is None else "learned",
        sinusoid_layout="split" if learned is None else "interleaved",
        output_bias=True,
        shared_embedding=is_source,
        shared_embedding_and_softmax_weights=_is_tied(files) and learned is None,
        max_length=recipe.max_length if learned is None else len(learned),
        beam_size=int(_search_number(files, "beam-size", recipe.beam_size)),
        alpha=_search_number(files, "normalize", recipe.alpha),
    )


def _is_tied(files: ModelFiles) -> bool:
    """Returns whether the output layer shares the target embedding table."""
    return bool(files.settings.get("tied-embeddings-all") or files.settings.get("tied-embeddings"))


def _search_number(files: ModelFiles, name: str, default: float) -> float:
    """Returns a number from decoder.yml, or the default if it is missing."""
    value: Any = files.decoder.get(name)
    return float(value) if type(value) in (int, float) else default


def _check_version(files: ModelFiles) -> None:
    """Raises UserError for a pre-norm model of a version that does not norm keys and values of self-attention."""
    version = str(files.settings.get("version"))
    numbers = re.match(r"v?(\d+)\.(\d+)", version)
    if numbers is None or (int(numbers[1]), int(numbers[2])) < _NORMS_KEYS:
        raise UserError(
            f"{files.folder / files.model}: it has norms before sub-layers and is of version {version}; before 1.11 "
            f"Marian did not norm keys and values of self-attention, as the models here do, so it cannot be imported"
        )


def _norms() -> Sequence[tuple[str, str]]:
    return tuple(NORM_LETTERS.items())


def _letters(settings: Any, name: str) -> str:
    """Returns the letters of a setting, without d for dropout."""
    return str(settings.get(f"transformer-{name}") or "").replace("d", "")


def _need(files: ModelFiles, name: str) -> int:
    value = files.settings.get(name)
    if type(value) is not int:
        raise UserError(f"{files.folder / files.model}: its settings have {name}={value!r}; it must be a whole number")
    return value


def _table_names(hparams: Any) -> dict[str, str]:
    """Returns our path of each embedding table -> Marian's name."""
    if hparams.shared_embedding:
        return dict.fromkeys(("source_embedding", "target_embedding"), "Wemb")
    return {"source_embedding": "encoder_Wemb", "target_embedding": "decoder_Wemb"}


def _weights(
    tensors: Tensors, hparams: Any, source: MarianVocabulary, target: MarianVocabulary, is_tied: bool
) -> Arrays:
    """Returns the weights by our paths."""
    names = _table_names(hparams)
    learned = hparams.positions == "learned"
    # Marian only scales embeddings if sinusoids are added; our embedding layers always do.
    scale = np.float32(hparams.hidden_size**-0.5 if learned else 1.0)
    target_VD = tensors.take(names["target_embedding"])
    weights = {"target_embedding/table": _rows(target_VD, target.order) * scale}
    if not hparams.shared_embedding:
        weights["source_embedding/table"] = _rows(tensors.take(names["source_embedding"]), source.order) * scale
    if not hparams.shared_embedding_and_softmax_weights:
        output_VD = target_VD if is_tied else _output_table(tensors)
        weights["output_embedding/table"] = _rows(output_VD, target.order)
    bias_V = tensors.take(f"{OUTPUT}_b").reshape(-1) if f"{OUTPUT}_b" in tensors else np.zeros(len(target_VD), "f")
    weights["output_embedding/bias"] = _rows(bias_V, target.order)
    if target.order[PAD_ID] == len(target_VD):
        weights["output_embedding/bias"][PAD_ID] = PAD_BIAS
    if learned:
        weights["positions/table"] = tensors.take("Wpos")
    for name, path in stack_names(hparams).items():
        array = tensors.take(name)
        weights[path] = array if path.endswith("kernel") else array.reshape(-1)
    return weights


def _output_table(tensors: Tensors) -> np.ndarray:
    """Returns the table of the output layer, (V, D), which is transposed in older models."""
    return tensors.take(f"{OUTPUT}_W").T if f"{OUTPUT}_W" in tensors else tensors.take(f"{OUTPUT}_Wt")


def _rows(array: np.ndarray, order: np.ndarray) -> np.ndarray:
    """Returns rows in our order, float32, with zeros for added padding."""
    zeros = np.zeros((max(0, int(order.max()) + 1 - len(array)), *array.shape[1:]), array.dtype)
    rows: np.ndarray = np.concatenate([array, zeros])[order]
    return rows
