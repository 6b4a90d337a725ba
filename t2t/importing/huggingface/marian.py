"""Translators of Marian as transformers stores them, such as those of OPUS-MT: `MarianMTModel`.

The network is the paper's Transformer with biases in attention, sines before cosines, a bias on every logit and one
table for both embeddings and the output layer. Vocabularies are two SentencePiece models over one table of ids.

Legend: D width, V vocabulary.
"""

from typing import Any

import numpy as np

from t2t.checkpoints.arrays import Arrays
from t2t.errors import UserError
from t2t.hparams.base import HParams
from t2t.hparams.transformer_marian import transformer_marian
from t2t.importing.formats import ImportRequest
from t2t.importing.huggingface.bart_layers import ACTIVATIONS, stacks, with_sizes
from t2t.importing.huggingface.folder import ModelFolder
from t2t.importing.huggingface.settings import check_settings, need
from t2t.importing.ids import in_our_order, our_order, pieces_by_id
from t2t.importing.run import ForeignRun
from t2t.importing.tensors import Tensors
from t2t.runs.names import get_text_problem
from t2t.specs.constants import INPUTS, TARGETS
from t2t.text.piece_table import PieceTableEncoder

_ALLOWED: dict[str, tuple[Any, ...]] = {
    "activation_function": tuple(ACTIVATIONS),
    "scale_embedding": (True,),
    "share_encoder_decoder_embeddings": (True,),
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
    order, pieces = _vocabulary(folder)
    problem = get_text_problem(request.problem or "text2text_files").with_encoders(
        {
            INPUTS: PieceTableEncoder(folder.read("source.spm"), pieces),
            TARGETS: PieceTableEncoder(folder.read("target.spm"), pieces),
        }
    )
    tensors = folder.read_tensors()
    weights = _weights(tensors, hparams, order)
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


def _hparams(folder: ModelFolder) -> HParams:
    """Returns the hparams of the network; those of training are of `transformer_marian`."""
    need(folder, "scale_embedding", bool)  # its default is none of those allowed
    check_settings(folder, _ALLOWED)
    return with_sizes(folder, transformer_marian())


def _vocabulary(folder: ModelFolder) -> tuple[np.ndarray, list[str]]:
    """Returns the foreign id of each of our ids, and the pieces by our ids."""
    pieces = pieces_by_id(folder.read_json("vocab.json"), str(folder.path / "vocab.json"))
    size, pad, eos = (need(folder, name) for name in ("vocab_size", "pad_token_id", "eos_token_id"))
    if len(pieces) != size:
        raise UserError(
            f"{folder.path}: vocab.json has {len(pieces)} ids, config.json vocab_size={size}; get both again"
        )
    if need(folder, "decoder_start_token_id") != pad:
        raise UserError(
            f"{folder.path / 'config.json'} has decoder_start_token_id={folder.config['decoder_start_token_id']} and "
            f"pad_token_id={pad}; the decoder here begins with padding"
        )
    wrong = [f"{name} is {number}" for name, number in (("pad", pad), ("eos", eos)) if not 0 <= number < size]
    if wrong or "<unk>" not in pieces:
        raise UserError(f"{folder.path}: of {size} ids, {', '.join(wrong) or '<unk>, for what is unknown, is none'}")
    order = our_order(size, pad, eos, pieces.index("<unk>"))
    return order, in_our_order(pieces, order)


def _weights(tensors: Tensors, hparams: Any, order: np.ndarray) -> Arrays:
    """Returns the weights by our paths; names what is not needed."""
    table_VD, bias_V = tensors.take("model.shared.weight"), tensors.take("final_logits_bias").reshape(-1)
    if len(table_VD) != len(order) or len(bias_V) != len(order):
        raise UserError(
            f"the model has a table of {len(table_VD)} tokens and {len(bias_V)} biases; vocab.json has {len(order)} "
            f"ids; get all files again"
        )
    if np.any(table_VD[order[0]]):
        raise UserError(
            "the model's vector of padding is not zero, and its decoder begins with it; the decoder here begins with "
            "zeros, so it cannot be imported"
        )
    weights = {"target_embedding/table": table_VD[order], "output_embedding/bias": bias_V[order]}
    weights |= stacks(tensors, hparams)
    for side in ("encoder", "decoder"):
        tensors.drop(f"model.{side}.embed_positions.weight", _POSITIONS)
    return weights
