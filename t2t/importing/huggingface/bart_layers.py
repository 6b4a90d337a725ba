"""The layers of a Transformer under the names of BART, which Marian's translators, M2M-100 and mBART have, too."""

from t2t.checkpoints.arrays import Arrays
from t2t.hparams.transformer import TransformerHParams
from t2t.importing.huggingface.folder import ModelFolder
from t2t.importing.huggingface.settings import check_equal, need, number_of
from t2t.importing.tensors import Tensors

ACTIVATIONS = {"swish": "silu", "silu": "silu", "relu": "relu", "gelu": "gelu"}
"""`activation_function` -> the hparam."""

_SUBLAYERS = {"self_attn": "self_attention", "encoder_attn": "encdec_attention"}


def with_sizes(folder: ModelFolder, hparams: TransformerHParams) -> TransformerHParams:
    """Returns hparams with the sizes, dropout and search of a folder's settings.

    Raises:
        UserError: a setting is missing or of another type, or encoder and decoder differ in heads or widths.
    """
    check_equal(folder, "encoder_attention_heads", "decoder_attention_heads")
    check_equal(folder, "encoder_ffn_dim", "decoder_ffn_dim")
    config, search = folder.config, folder.generation_config
    return hparams.replace(
        hidden_size=need(folder, "d_model"),
        num_encoder_layers=need(folder, "encoder_layers"),
        num_decoder_layers=need(folder, "decoder_layers"),
        num_heads=need(folder, "encoder_attention_heads"),
        filter_size=need(folder, "encoder_ffn_dim"),
        activation=ACTIVATIONS[need(folder, "activation_function", str)],
        max_length=need(folder, "max_position_embeddings"),
        layer_prepostprocess_dropout=number_of(folder, config, "dropout", 0.1),
        attention_dropout=number_of(folder, config, "attention_dropout", 0.0),
        relu_dropout=number_of(folder, config, "activation_dropout", 0.0),
        beam_size=int(number_of(folder, search, "num_beams", 1)),
        alpha=number_of(folder, search, "length_penalty", 1.0),
    )


def stacks(tensors: Tensors, hparams: TransformerHParams) -> Arrays:
    """Returns the weights of the layers of encoder and decoder by our paths, with the norm at the end of each stack.

    Copies of the table of embeddings are marked as not needed.
    """
    weights: Arrays = {}
    for side, layers in (("encoder", hparams.encoder_layers), ("decoder", hparams.decoder_layers)):
        for number in range(layers):
            weights |= _layer(tensors, f"model.{side}.layers.{number}", f"{side}/layer_{number}", side == "decoder")
        if hparams.norm_position == "pre":
            weights |= tensors.norm(f"model.{side}.layer_norm", f"{side}/final_norm")
        tensors.drop_copy(f"model.{side}.embed_tokens.weight", "model.shared.weight")
    tensors.drop_copy("lm_head.weight", "model.shared.weight")
    return weights


def _layer(tensors: Tensors, name: str, path: str, is_decoder: bool) -> Arrays:
    """Returns the weights of a layer."""
    weights = tensors.linear(f"{name}.fc1", f"{path}/ffn/inner/") | tensors.linear(f"{name}.fc2", f"{path}/ffn/outer/")
    weights |= tensors.norm(f"{name}.final_layer_norm", f"{path}/ffn_residual/norm")
    for attention in ("self_attn", "encoder_attn") if is_decoder else ("self_attn",):
        ours = f"{path}/{_SUBLAYERS[attention]}"
        for letter, part in (("q", "query"), ("k", "key"), ("v", "value")):
            weights |= tensors.linear(f"{name}.{attention}.{letter}_proj", f"{ours}/project/{part}_")
        weights |= tensors.linear(f"{name}.{attention}.out_proj", f"{ours}/output/")
        weights |= tensors.norm(f"{name}.{attention}_layer_norm", f"{ours}_residual/norm")
    return weights
