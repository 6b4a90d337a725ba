"""Translators of Marian as transformers stores them, such as those of OPUS-MT: `MarianMTModel`.

The network is the paper's Transformer with biases in attention, sines before cosines and a bias on every logit; the
output layer is the table of targets. Vocabularies are two SentencePiece models over one table of ids, or one for each.

Legend: D width, V vocabulary.
"""

from typing import Any

import numpy as np

from t2t.checkpoints.arrays import Arrays
from t2t.errors import UserError
from t2t.hparams.base import HParams
from t2t.hparams.transformer_marian import transformer_marian
from t2t.importing.formats import ImportRequest
from t2t.importing.huggingface.folder import ModelFolder
from t2t.importing.huggingface.settings import check_equal, check_settings, need, number_of
from t2t.importing.ids import in_our_order, our_order, pieces_by_id
from t2t.importing.pytorch_layers import layer_weights
from t2t.importing.run import ForeignRun
from t2t.importing.tensors import Tensors
from t2t.runs.names import get_text_problem
from t2t.specs.constants import INPUTS, TARGETS
from t2t.text.piece_table import PieceTableEncoder

_ACTIVATIONS = {"swish": "silu", "silu": "silu", "relu": "relu", "gelu": "gelu"}
_ALLOWED: dict[str, tuple[Any, ...]] = {
    "activation_function": tuple(_ACTIVATIONS),
    "scale_embedding": (True,),
    "share_encoder_decoder_embeddings": (True, False),
    "tie_word_embeddings": (True,),
    "normalize_before": (False,),
    "normalize_embedding": (False,),
    "add_final_layer_norm": (False,),
    "static_position_embeddings": (True,),
}
_POSITIONS = "sinusoids, which are computed here"


def read(folder: ModelFolder, request: ImportRequest) -> ForeignRun:
    """Reads the folder of a `MarianMTModel` and its tokenizer.

    Raises:
        UserError: a file is missing or damaged, or the network is another than the Transformer here.
    """
    hparams = _hparams(folder)
    pad = _pad(folder)
    source, pieces = _vocabulary(folder, "vocab.json", "vocab_size", pad)
    target, target_pieces = source, pieces
    if not hparams.shared_embedding:
        target, target_pieces = _vocabulary(folder, "target_vocab.json", "decoder_vocab_size", pad)
    problem = get_text_problem(request.problem or "text2text_files").with_encoders(
        {
            INPUTS: PieceTableEncoder(folder.read("source.spm"), pieces),
            TARGETS: PieceTableEncoder(folder.read("target.spm"), target_pieces),
        }
    )
    tensors = folder.read_tensors()
    weights = _weights(tensors, hparams, source, target)
    return ForeignRun(
        problem=problem,
        hparams=hparams,
        hparams_set="transformer_marian",
        weights=weights,
        unused=tensors.finish(),
        tensors=tensors.taken,
        origin=f"the model in {folder.path}",
        settings="its config.json and vocab.json",
        notes=(f"ids: padding {target[0]}, end of sequence {target[1]} and unknown {target[2]} became 0, 1 and 2",),
    )


def _hparams(folder: ModelFolder) -> HParams:
    """Returns the hparams of the network; those of training are of `transformer_marian`."""
    need(folder, "scale_embedding", bool)  # its default is none of those allowed
    check_settings(folder, _ALLOWED)
    check_equal(folder, "encoder_attention_heads", "decoder_attention_heads")
    check_equal(folder, "encoder_ffn_dim", "decoder_ffn_dim")
    config, search = folder.config, folder.generation_config
    return transformer_marian().replace(
        hidden_size=need(folder, "d_model"),
        num_encoder_layers=need(folder, "encoder_layers"),
        num_decoder_layers=need(folder, "decoder_layers"),
        num_heads=need(folder, "encoder_attention_heads"),
        filter_size=need(folder, "encoder_ffn_dim"),
        activation=_ACTIVATIONS[need(folder, "activation_function", str)],
        max_length=need(folder, "max_position_embeddings"),
        shared_embedding=config.get("share_encoder_decoder_embeddings", True),
        layer_prepostprocess_dropout=number_of(folder, config, "dropout", 0.1),
        attention_dropout=number_of(folder, config, "attention_dropout", 0.0),
        relu_dropout=number_of(folder, config, "activation_dropout", 0.0),
        beam_size=int(number_of(folder, search, "num_beams", 1)),
        alpha=number_of(folder, search, "length_penalty", 1.0),
    )


def _pad(folder: ModelFolder) -> int:
    """Returns the id of padding; raises UserError unless the decoder begins with it."""
    pad: int = need(folder, "pad_token_id")
    if need(folder, "decoder_start_token_id") != pad:
        raise UserError(
            f"{folder.path / 'config.json'} has decoder_start_token_id={folder.config['decoder_start_token_id']} and "
            f"pad_token_id={pad}; the decoder here begins with padding"
        )
    return pad


def _vocabulary(folder: ModelFolder, name: str, setting: str, pad: int) -> tuple[np.ndarray, list[str]]:
    """Returns the foreign id of each of our ids, and the pieces by our ids, of a file whose size is a setting."""
    pieces = pieces_by_id(folder.read_json(name), str(folder.path / name))
    size, eos = need(folder, setting), need(folder, "eos_token_id")
    if len(pieces) != size:
        raise UserError(f"{folder.path}: {name} has {len(pieces)} ids, config.json {setting}={size}; get both again")
    wrong = [f"{name} is {number}" for name, number in (("pad", pad), ("eos", eos)) if not 0 <= number < size]
    if wrong or "<unk>" not in pieces:
        raise UserError(f"{folder.path}: of {size} ids, {', '.join(wrong) or '<unk>, for what is unknown, is none'}")
    order = our_order(size, pad, eos, pieces.index("<unk>"))
    return order, in_our_order(pieces, order)


def _weights(tensors: Tensors, hparams: Any, source: np.ndarray, target: np.ndarray) -> Arrays:
    """Returns the weights by our paths; names what is not needed."""
    target_name = "model.shared.weight" if hparams.shared_embedding else "model.decoder.embed_tokens.weight"
    tables = {"target_embedding": (target_name, target)}
    if not hparams.shared_embedding:
        tables["source_embedding"] = ("model.encoder.embed_tokens.weight", source)
    bias_V = tensors.take("final_logits_bias").reshape(-1)
    for name, order in tables.values():
        if len(tensors.take(name)) != len(order) or len(bias_V) != len(target):
            raise UserError(
                f"the model has {len(tensors.take(name))} tokens in {name} and {len(bias_V)} biases; the vocabularies "
                f"have {len(order)} ids, and {len(target)} of targets; get all files again"
            )
    if np.any(tensors.take(target_name)[target[0]]):
        raise UserError(
            "the model's vector of padding is not zero, and its decoder begins with it; the decoder here begins with "
            "zeros, so it cannot be imported"
        )
    weights = {f"{path}/table": tensors.take(name)[order] for path, (name, order) in tables.items()}
    weights["output_embedding/bias"] = bias_V[target]
    for side, layers in (("encoder", hparams.encoder_layers), ("decoder", hparams.decoder_layers)):
        for number in range(layers):
            weights |= layer_weights(
                tensors, f"model.{side}.layers.{number}", f"{side}/layer_{number}", side == "decoder"
            )
        tensors.drop(f"model.{side}.embed_positions.weight", _POSITIONS)
        if hparams.shared_embedding:
            tensors.drop_copy(f"model.{side}.embed_tokens.weight", "model.shared.weight")
    tensors.drop_copy("lm_head.weight", target_name)
    return weights
