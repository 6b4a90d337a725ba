"""Translators of Marian as transformers stores them, such as those of OPUS-MT: `MarianMTModel`.

The network is the paper's Transformer with biases in attention, sines before cosines, a bias on every logit and one
table for both embeddings and the output layer. Vocabularies are two SentencePiece models over one table of ids.

Legend: D width, V vocabulary.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np

from t2t.checkpoints.arrays import Arrays
from t2t.errors import UserError
from t2t.export.huggingface.mapping import (
    MARIAN_ACTIVATIONS,
    MARIAN_EQUAL,
    MARIAN_FIXED,
    MARIAN_RATES,
    MARIAN_SIZES,
    NEVER,
    marian_parts,
)
from t2t.hparams.transformer import TransformerHParams
from t2t.hparams.transformer_marian import transformer_marian
from t2t.importing.formats import ImportRequest
from t2t.importing.huggingface.folder import ModelFolder
from t2t.importing.huggingface.parts import take_parts
from t2t.importing.huggingface.settings import check_equal, check_settings, need, number_of
from t2t.importing.ids import in_our_order, our_order, pieces_by_id
from t2t.importing.run import ForeignRun
from t2t.importing.tensors import Tensors
from t2t.runs.names import get_text_problem
from t2t.specs.constants import INPUTS, TARGETS
from t2t.text.encoder import TextEncoder
from t2t.text.piece_table import PieceTableEncoder

_ALLOWED: dict[str, tuple[Any, ...]] = {
    "activation_function": tuple(MARIAN_ACTIVATIONS),
    **{name: (value,) for name, value in MARIAN_FIXED.items()},
}
_POSITIONS = "sinusoids, which are computed here"


def read(folder: ModelFolder, request: ImportRequest) -> ForeignRun:
    """Reads the folder of a `MarianMTModel` and its tokenizer.

    Raises:
        UserError: a file is missing or damaged, or the network is another than the Transformer here.
    """
    hparams = _hparams(folder)
    order, pieces = _vocabulary(folder)
    problem = get_text_problem(request.problem or "text2text_files").with_encoders(marian_encoders(folder, pieces))
    tensors = folder.read_tensors()
    weights = _weights(tensors, hparams, order, folder.config["decoder_start_token_id"])
    return ForeignRun(
        problem=problem,
        hparams=hparams,
        hparams_set="transformer_marian",
        weights=weights,
        unused=tensors.finish(),
        tensors=tensors.taken,
        origin=f"the model in {folder.path}",
        settings="its config.json and vocab.json",
        notes=(f"ids: padding {order[0]}, end of sequence {order[1]} and unknown {order[2]} became 0, 1 and 2",),
    )


def marian_encoders(folder: ModelFolder, pieces: Sequence[str]) -> dict[str, TextEncoder]:
    """Returns the vocabularies of both sides; `pieces` are those of `vocab.json` by our ids."""
    files = {INPUTS: "source.spm", TARGETS: "target.spm"}
    return {feature: PieceTableEncoder(folder.read(file), pieces) for feature, file in files.items()}


def _hparams(folder: ModelFolder) -> TransformerHParams:
    """Returns the hparams of the network; those of training are of `transformer_marian`."""
    need(folder, "scale_embedding", bool)  # its default is none of those allowed
    check_settings(folder, _ALLOWED)
    for theirs, same in MARIAN_EQUAL.items():
        check_equal(folder, same, theirs)
    config, search = folder.config, folder.generation_config
    sizes = {ours: need(folder, theirs) for theirs, ours in MARIAN_SIZES.items()}
    rates = {ours: number_of(folder, config, theirs, usual) for theirs, (ours, usual) in MARIAN_RATES.items()}
    return transformer_marian().replace(
        **sizes,
        **rates,
        activation=MARIAN_ACTIVATIONS[need(folder, "activation_function", str)],
        beam_size=int(number_of(folder, search, "num_beams", 1)),
        alpha=number_of(folder, search, "length_penalty", 1.0),
    )


def _vocabulary(folder: ModelFolder) -> tuple[np.ndarray, list[str]]:
    """Returns the foreign id of each of our ids, and the pieces by our ids.

    What the decoder begins with is padding, or an id of its own that is no piece and comes last in their order.
    """
    pieces = pieces_by_id(folder.read_json("vocab.json"), str(folder.path / "vocab.json"))
    size, pad, eos = (need(folder, name) for name in ("vocab_size", "pad_token_id", "eos_token_id"))
    start = need(folder, "decoder_start_token_id")
    if len(pieces) != size:
        raise UserError(
            f"{folder.path}: vocab.json has {len(pieces)} ids, config.json vocab_size={size}; get both again"
        )
    if start not in (pad, size - 1) or start == eos:
        raise UserError(
            f"{folder.path / 'config.json'} has decoder_start_token_id={start} and pad_token_id={pad}; the decoder "
            f"here begins with padding, or with an id after all others"
        )
    wrong = [f"{name} is {number}" for name, number in (("pad", pad), ("eos", eos)) if not 0 <= number < size]
    if wrong or "<unk>" not in pieces:
        raise UserError(f"{folder.path}: of {size} ids, {', '.join(wrong) or '<unk>, for what is unknown, is none'}")
    order = our_order(size if start == pad else size - 1, pad, eos, pieces.index("<unk>"))
    return order, in_our_order(pieces, order)


def _weights(tensors: Tensors, hparams: TransformerHParams, order: np.ndarray, start: int) -> Arrays:
    """Returns the weights by our paths; names what is not needed. `start` is the id that the decoder begins with."""
    table_VD, bias_V = tensors.take("model.shared.weight"), tensors.take("final_logits_bias").reshape(-1)
    size = len(order) + (start not in order)
    if len(table_VD) != size or len(bias_V) != size:
        raise UserError(
            f"the model has a table of {len(table_VD)} tokens and {len(bias_V)} biases; vocab.json has {size} ids; get "
            f"all files again"
        )
    if np.any(table_VD[start]):
        what = "padding" if start == order[0] else f"id {start}"
        raise UserError(
            f"the model's vector of {what} is not zero, and its decoder begins with it; the decoder here begins with "
            f"zeros, so it cannot be imported"
        )
    if start not in order and bias_V[start] > NEVER / 2:
        raise UserError(
            f"the decoder begins with id {start}, which may be written as well (its bias is {bias_V[start]:g}); the "
            f"models here have no such id, so it cannot be imported"
        )
    weights = {"target_embedding/table": table_VD[order], "output_embedding/bias": bias_V[order]}
    weights |= take_parts(tensors, marian_parts(hparams.encoder_layers, hparams.decoder_layers))
    for side in ("encoder", "decoder"):
        tensors.drop(f"model.{side}.embed_positions.weight", _POSITIONS)
        tensors.drop_copy(f"model.{side}.embed_tokens.weight", "model.shared.weight")
    tensors.drop_copy("lm_head.weight", "model.shared.weight")
    return weights
