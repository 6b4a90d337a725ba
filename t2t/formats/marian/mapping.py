"""Names of the tensors of Marian's Transformer, and the corresponding paths here.

Kernels are (inputs, outputs), as here; biases, gains and offsets are rows (1, outputs).
"""

from typing import Any

NORM_LETTERS = {"layer": "n", "rms": "r"}
"""Our norm type -> its letter in Marian's pre- and postprocess strings."""
ACTIVATIONS = {"relu": "relu", "swish": "silu", "gelu": "gelu_sigmoid"}
"""Marian's activations -> ours: its gelu is x sigmoid(1.702 x)."""
EPSILON = 1e-6
"""Epsilon of Marian's norms."""
OUTPUT = "decoder_ff_logit_out"
"""Prefix of the tensors of the output layer."""
SETTINGS = "special:model.yml"
"""Archive entry with the settings, as YAML bytes with a trailing zero."""

SIZES = {
    "dim-emb": "hidden_size",
    "enc-depth": "num_encoder_layers",
    "dec-depth": "num_decoder_layers",
    "transformer-heads": "num_heads",
    "transformer-dim-ffn": "filter_size",
}
"""Marian's settings -> our hparams."""


def table_names(is_shared: bool) -> dict[str, str]:
    """Returns our path of each embedding table -> Marian's name."""
    if is_shared:
        return dict.fromkeys(("source_embedding", "target_embedding"), "Wemb")
    return {"source_embedding": "encoder_Wemb", "target_embedding": "decoder_Wemb"}


def stack_names(hparams: Any) -> dict[str, str]:
    """Returns Marian's name -> our path of each tensor of encoder and decoder; `hparams` are a Transformer's."""
    names: dict[str, str] = {}
    for side, layers in (("encoder", hparams.encoder_layers), ("decoder", hparams.decoder_layers)):
        for number in range(layers):
            names |= _layer_names(hparams, side, number)
        if hparams.norm_position == "pre":
            names |= _norm_names(hparams, f"{side}_top", f"{side}/final_norm", "")
    return names


def _layer_names(hparams: Any, side: str, number: int) -> dict[str, str]:
    theirs, ours = f"{side}_l{number + 1}", f"{side}/layer_{number}"
    suffix = "_pre" if hparams.norm_position == "pre" else ""
    attentions = {"self": "self_attention"} | ({"context": "encdec_attention"} if side == "decoder" else {})
    names: dict[str, str] = {}
    for attention, path in attentions.items():
        for letter, part in (("q", "query"), ("k", "key"), ("v", "value")):
            names[f"{theirs}_{attention}_W{letter}"] = f"{ours}/{path}/project/{part}_kernel"
            names[f"{theirs}_{attention}_b{letter}"] = f"{ours}/{path}/project/{part}_bias"
        names[f"{theirs}_{attention}_Wo"] = f"{ours}/{path}/output/kernel"
        names[f"{theirs}_{attention}_bo"] = f"{ours}/{path}/output/bias"
        names |= _norm_names(hparams, f"{theirs}_{attention}_Wo", f"{ours}/{path}_residual/norm", suffix)
    for digit, part in (("1", "inner"), ("2", "outer")):
        names[f"{theirs}_ffn_W{digit}"] = f"{ours}/ffn/{part}/kernel"
        names[f"{theirs}_ffn_b{digit}"] = f"{ours}/ffn/{part}/bias"
    return names | _norm_names(hparams, f"{theirs}_ffn_ffn", f"{ours}/ffn_residual/norm", suffix)


def _norm_names(hparams: Any, theirs: str, ours: str, suffix: str) -> dict[str, str]:
    if hparams.norm_type == "rms":
        return {f"{theirs}_rms_scale{suffix}": f"{ours}/gamma"}
    return {f"{theirs}_ln_scale{suffix}": f"{ours}/gamma", f"{theirs}_ln_bias{suffix}": f"{ours}/beta"}
