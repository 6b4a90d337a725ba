"""Marian models stored by transformers, such as those of OPUS-MT: `MarianMTModel`, in both directions.

The network is the paper's Transformer with post-norm, biases in attention, sines before cosines, and a bias for every
logit. There are two SentencePiece models, with one table of ids and embeddings for both sides or one for each; what is
written has one table.

transformers computes the sinusoids itself, all sines before all cosines, and does not store them. For interleaved
sinusoids of a run, the channels of all weights are permuted instead: channel c of the model there is channel order[c]
here. The outputs stay the same, since norms and products are sums over channels.

Its decoder starts from the embedding of an id. If ours starts from zeros and padding has an embedding, as in runs
trained here, an id with a zero vector is added, and a bias prevents it from being generated.

Legend: D width, E channels of a layer's output, V vocabulary.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from t2t.checkpoints.arrays import Arrays
from t2t.errors import UserError
from t2t.formats.exporter import complaints
from t2t.formats.folder import ModelFolder
from t2t.formats.foreign_vocabulary import in_our_order, our_order, pieces_by_id
from t2t.formats.huggingface.mapping import (
    COPIES,
    MARIAN_ACTIVATIONS,
    MARIAN_FIXED,
    MARIAN_NORM_EPSILON,
    MARIAN_RATES,
    MARIAN_SIZES,
    NEVER,
    Network,
    backwards,
    search_warnings,
    stacks,
    transformer_parts,
    with_sizes,
)
from t2t.formats.huggingface.tokenizer import TokenizerFiles
from t2t.formats.importer import ForeignRun, ImportRequest
from t2t.formats.tensors import Kind, Tensors, part_tensors, weights_of
from t2t.hparams.transformer import TransformerHParams
from t2t.hparams.transformer_variants import transformer_marian
from t2t.models.transformer import Transformer
from t2t.specs import EOS_ID, INPUTS, PAD_ID, TARGETS
from t2t.text.encoder import TextEncoder
from t2t.text.imported import PieceTableEncoder

_ALLOWED: dict[str, tuple[Any, ...]] = {
    "activation_function": tuple(MARIAN_ACTIVATIONS),
    "share_encoder_decoder_embeddings": (True, False),
    **{name: (value,) for name, value in MARIAN_FIXED.items()},
}
_POSITIONS = "sinusoids, which are computed here"


class _Vocabulary(NamedTuple):
    """The ids of one side."""

    order: np.ndarray
    """The foreign id of each of our ids, (V,)."""
    pieces: list[str]
    """Pieces by our ids."""


def read(folder: ModelFolder, request: ImportRequest) -> ForeignRun:
    """Reads the folder of a `MarianMTModel` and its tokenizer.

    Raises:
        UserError: a file is missing or damaged, or the network differs from the Transformer here.
    """
    folder.config.need("scale_embedding", bool)  # required, since its default is not supported
    folder.config.check(_ALLOWED)
    is_shared = folder.config.get("share_encoder_decoder_embeddings", True)
    hparams = with_sizes(folder, transformer_marian()).replace(shared_embedding=is_shared)
    start = _start(folder, hparams)
    names = ("vocab.json", *([] if hparams.shared_embedding else ["target_vocab.json"]))
    pieces = {piece for name in names for piece in folder.read_json(name)}
    TokenizerFiles(folder).check_added(pieces, f"in {' or '.join(names)}")
    source = target = _vocabulary(folder, "vocab.json", "vocab_size", start)
    if not hparams.shared_embedding:
        target = _vocabulary(folder, "target_vocab.json", "decoder_vocab_size", start)
    encoders = marian_encoders(folder, source.pieces, target.pieces)
    problem = request.problem.with_encoders(encoders)
    tensors = folder.read_tensors()
    weights = _weights(tensors, hparams, source.order, target.order, start)
    pad, eos, unknown, *_ = target.order
    return ForeignRun(
        problem=problem,
        hparams=hparams,
        hparams_set="transformer_marian",
        weights=weights,
        unused=tensors.finish(),
        tensors=tensors.taken,
        origin=f"the model in {folder.path}",
        settings="its config.json and vocab.json",
        notes=(f"ids: padding {pad}, end of sequence {eos} and unknown {unknown} became 0, 1 and 2",),
        warnings=search_warnings(folder),
    )


def marian_encoders(folder: ModelFolder, source: Sequence[str], target: Sequence[str]) -> dict[str, TextEncoder]:
    """Returns the encoders of both sides; `source` and `target` are the pieces by our ids."""
    return {
        INPUTS: PieceTableEncoder(folder.read("source.spm"), source),
        TARGETS: PieceTableEncoder(folder.read("target.spm"), target),
    }


def _start(folder: ModelFolder, hparams: TransformerHParams) -> int:
    """Returns the id that the decoder starts with: padding, or a separate last id of a shared table."""
    start: int = folder.config.need("decoder_start_token_id")
    size, pad, eos = (folder.config.need(name) for name in ("vocab_size", "pad_token_id", "eos_token_id"))
    is_own = start == size - 1 and hparams.shared_embedding
    if not (start == pad or is_own) or start == eos:
        raise UserError(
            f"{folder.path / 'config.json'} has decoder_start_token_id={start} and pad_token_id={pad}",
            "the decoder here begins with padding, or with an id after all others",
        )
    return start


def _vocabulary(folder: ModelFolder, name: str, setting: str, start: int) -> _Vocabulary:
    """Returns the vocabulary of a file, whose size is a setting; excludes the id `start` unless that is padding."""
    pieces = pieces_by_id(folder.read_json(name), str(folder.path / name))
    size, pad, eos = (folder.config.need(setting_) for setting_ in (setting, "pad_token_id", "eos_token_id"))
    if len(pieces) != size:
        raise UserError(
            f"{folder.path}: {name} has {len(pieces)} ids, config.json {setting}={size}",
            "get both again, or if the model has rows of added tokens, remove them with "
            f"resize_token_embeddings({len(pieces)}) of transformers",
        )
    wrong = [f"{what} is {number}" for what, number in (("pad", pad), ("eos", eos)) if not 0 <= number < size]
    if wrong or "<unk>" not in pieces:
        raise UserError(
            f"{folder.path}: of {size} ids, {', '.join(wrong) or 'there is no <unk>, for unknown words'}",
            "get it again",
        )
    order = our_order(size if start == pad else size - 1, pad, eos, pieces.index("<unk>"))
    return _Vocabulary(order, in_our_order(pieces, order))


def _weights(
    tensors: Tensors, hparams: TransformerHParams, source: np.ndarray, target: np.ndarray, start: int
) -> Arrays:
    """Returns the weights by our paths; marks the tensors that are not needed.

    Args:
        tensors: tensors of the model.
        hparams: hparams of its network.
        source: the foreign id of each of our input ids.
        target: the foreign id of each of our target ids.
        start: the foreign id that the decoder starts with.
    """
    target_name = "model.shared.weight" if hparams.shared_embedding else "model.decoder.embed_tokens.weight"
    tables = {"target_embedding": (target_name, target)}
    tensors.rename(target_name, *COPIES[: 3 if hparams.shared_embedding else 1])
    if not hparams.shared_embedding:
        tables["source_embedding"] = ("model.encoder.embed_tokens.weight", source)
    bias_V = tensors.take("final_logits_bias").reshape(-1)
    extra = int(start not in target)
    for name, order in tables.values():
        if len(tensors.take(name)) != len(order) + extra or len(bias_V) != len(target) + extra:
            raise UserError(
                f"the model has {len(tensors.take(name))} tokens in {name} and {len(bias_V)} biases; the vocabularies "
                f"have {len(order) + extra} ids, and {len(target) + extra} of targets",
                "get all files again",
            )
    _check_start(start, target[0], tensors.take(target_name)[start], bias_V[start])
    weights = {f"{path}/table": tensors.take(name)[order] for path, (name, order) in tables.items()}
    weights["output_embedding/bias"] = bias_V[target]
    weights |= stacks(tensors, hparams, target_name)
    for side in ("encoder", "decoder"):
        tensors.drop(f"model.{side}.embed_positions.weight", _POSITIONS)
    return weights


def _check_start(start: int, pad: int, vector_D: np.ndarray, bias: float) -> None:
    """Raises UserError unless the decoder's start vector is zero, and a separate start token cannot be generated."""
    if np.any(vector_D):
        what = "padding" if start == pad else f"id {start}"
        raise UserError(
            f"the model's vector of {what} is not zero, and its decoder begins with it",
            "the decoder here begins with zeros, so it cannot be imported",
        )
    if start != pad and bias > NEVER / 2:
        raise UserError(
            f"the decoder begins with id {start}, which may be written as well (its bias is {bias:g})",
            "the models here have no such id, so it cannot be imported",
        )


_WANTED = {
    "norm_position": ("post",),
    "norm_type": ("layer",),
    "positions": ("sinusoidal",),
    "activation": tuple(backwards(MARIAN_ACTIVATIONS)),
    "gated_feed_forward": (False,),
    "target_start": ("zero", "pad"),
    "shared_embedding_and_softmax_weights": (True,),
}


def marian_complaints(hparams: TransformerHParams) -> list[str]:
    """Returns the settings that Marian's network does not support."""
    found = complaints(hparams, _WANTED)
    if hparams.positions == "sinusoidal":
        found += complaints(hparams, {"sinusoid_layout": ("interleaved", "halves")})
    if hparams.key_channels != hparams.hidden_size:
        found.append(f"attention_key_channels={hparams.key_channels} (known: {hparams.hidden_size}, the width)")
    if hparams.norm_epsilon > MARIAN_NORM_EPSILON:
        found.append(f"norm_epsilon={hparams.norm_epsilon:g} (known: {MARIAN_NORM_EPSILON:g}, and what is near it)")
    return found


def marian_network(model: Transformer) -> Network:
    """Returns the configuration and tensors of a model that has no complaints."""
    hparams, weights = model.hparams, weights_of(model)
    parts = list(transformer_parts(hparams.encoder_layers, hparams.decoder_layers))
    tensors, order = part_tensors(parts, weights), np.arange(hparams.hidden_size)  # ours of each channel there, (D,)
    if hparams.sinusoid_layout == "interleaved":
        order = order.reshape(-1, 2).T.reshape(-1)
    for part in parts:
        weight, bias = f"{part.theirs}.weight", f"{part.theirs}.bias"
        tensors.setdefault(bias, np.zeros(len(tensors[weight]), np.float32))  # of a linear map that has none here
        if part.kind == Kind.READS:
            tensors[weight] = tensors[weight][:, order]
        else:
            tensors[weight], tensors[bias] = tensors[weight][order], tensors[bias][order]
    table_VD = np.asarray(model.target_embedding.table)[:, order]
    bias_V = np.zeros(len(table_VD), np.float32) if model.top.bias is None else np.asarray(model.top.bias)
    start = PAD_ID
    if hparams.target_start == "zero" and np.any(table_VD[PAD_ID]):
        start = len(table_VD)
        table_VD = np.concatenate([table_VD, np.zeros_like(table_VD[:1])])
        bias_V = np.append(bias_V, np.float32(NEVER))
    tensors |= {"model.shared.weight": table_VD, "final_logits_bias": bias_V[None, :]}
    return Network(_config(hparams, len(table_VD), start), tensors, start, hparams.max_length)


def _config(hparams: TransformerHParams, vocab_size: int, start: int) -> dict:
    decoder = hparams.of_decoder
    own = {
        "num_encoder_layers": hparams.encoder_layers, "num_decoder_layers": hparams.decoder_layers,
        "num_decoder_heads": decoder.num_heads, "decoder_filter_size": decoder.filter_size,
    }  # fmt: skip
    sizes = {theirs: own.get(ours) or getattr(hparams, ours) for theirs, ours in MARIAN_SIZES.items()}
    return {
        "model_type": "marian",
        "architectures": ["MarianMTModel"],
        "is_encoder_decoder": True,
        "dtype": "float32",
        "vocab_size": vocab_size,
        "decoder_vocab_size": vocab_size,
        **sizes,
        **{theirs: getattr(hparams, ours) for theirs, (ours, _) in MARIAN_RATES.items()},
        "activation_function": backwards(MARIAN_ACTIVATIONS)[hparams.activation],
        **MARIAN_FIXED,
        "share_encoder_decoder_embeddings": True,
        "pad_token_id": PAD_ID,
        "eos_token_id": EOS_ID,
        "bos_token_id": None,
        "forced_eos_token_id": EOS_ID,
        "decoder_start_token_id": start,
    }
