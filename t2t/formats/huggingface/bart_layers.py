"""Settings and layers of BART's network, which Marian models, M2M-100 and mBART in transformers share."""

from t2t.checkpoints.arrays import Arrays
from t2t.formats.folder import ModelFolder
from t2t.formats.huggingface.mapping import (
    MARIAN_ACTIVATIONS,
    MARIAN_RATES,
    MARIAN_SIZES,
    transformer_parts,
)
from t2t.formats.huggingface.search import search_hparams
from t2t.formats.huggingface.settings import need, need_size, number_of
from t2t.formats.tensors import Tensors, take_parts
from t2t.hparams.transformer import TransformerHParams

COPIES = ("lm_head.weight", "model.decoder.embed_tokens.weight", "model.encoder.embed_tokens.weight")
"""Other names of a shared embedding table; without one, the first is another name of the decoder's."""


def with_sizes(folder: ModelFolder, hparams: TransformerHParams) -> TransformerHParams:
    """Returns hparams with the sizes, dropout and search settings of a folder.

    Raises:
        UserError: a setting is missing or has the wrong type.
    """
    sizes = {ours: need_size(folder, theirs) for theirs, ours in MARIAN_SIZES.items()}
    of_decoder = sizes.pop("num_decoder_heads"), sizes.pop("decoder_filter_size")
    rates = {ours: number_of(folder, folder.config, theirs, usual) for theirs, (ours, usual) in MARIAN_RATES.items()}
    return hparams.replace(
        **sizes,
        **rates,
        activation=MARIAN_ACTIVATIONS[need(folder, "activation_function", str)],
        **search_hparams(folder),
    ).with_decoder(*of_decoder)


def stacks(tensors: Tensors, hparams: TransformerHParams, target_table: str = "model.shared.weight") -> Arrays:
    """Returns the weights of all encoder and decoder layers by our paths, with the norm at the end of each stack.

    Copies of the embedding tables are marked as not needed; `target_table` is the name of the target table.
    """
    weights = take_parts(tensors, transformer_parts(hparams.encoder_layers, hparams.decoder_layers))
    for side in ("encoder", "decoder"):
        if hparams.norm_position == "pre":
            weights |= tensors.norm(f"model.{side}.layer_norm", f"{side}/final_norm")
        if hparams.shared_embedding:
            tensors.drop_copy(f"model.{side}.embed_tokens.weight", "model.shared.weight")
    tensors.drop_copy("lm_head.weight", target_table)
    return weights
