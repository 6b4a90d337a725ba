"""Reads a folder of Eole: `config.json`, `vocab.json` and `model.<nn>.safetensors`."""

from collections.abc import Mapping
from typing import Any

from t2t.checkpoints.arrays import Arrays, parse_arrays
from t2t.errors import UserError, one_line
from t2t.formats.folder import ModelFolder
from t2t.formats.importer import unknown_values
from t2t.formats.opennmt.model import EOLE, OUTPUT, ForeignModel, trained_alignment

_ACTIVATIONS = {
    "relu": "relu", "gelu": "gelu", "gelu-tanh": "gelu-tanh", "silu": "plain-silu", "gated-silu": "silu",
    "gated-gelu": "gated-gelu", "gated-gelu-tanh": "gated-gelu-tanh",
}  # fmt: skip
"""Eole's activation -> OpenNMT-py's name, whose `silu` is gated, or a further name of ours."""
_EMBEDDINGS: Mapping[str, tuple[Any, ...]] = {
    "position_encoding_type": ("SinusoidalInterleaved", "SinusoidalConcat"), "embedding_type": ("standard",),
    "normalize": (False,), "embedding_layer_norm": (False,), "position_shift": (0, None),
}  # fmt: skip
_STACK: Mapping[str, tuple[Any, ...]] = {
    "encoder_type": ("transformer",), "decoder_type": ("transformer",), "layer_norm": ("standard", "rms"),
    "mlp_activation_fn": tuple(_ACTIVATIONS), "encoder_layer_style": ("standard",), "final_encoder_layer_norm": (True,),
    "parallel_residual": (False,), "ffn_layernorm": (False,), "query_norm": (False,), "key_norm": (False,),
    "value_norm": (False,), "heads_kv": (None,), "attn_scaling": (None,), "num_experts": (0,), "q_gating": (False,),
    "sliding_window": (0,), "relative_positions_buckets": (0,), "layer_types": (None,), "head_dim": (None,),
    "position_encoding_type": ("SinusoidalInterleaved", "SinusoidalConcat"), "coverage_attn": (False,),
}  # fmt: skip
"""Settings with the values that our network supports."""
_SAME = ("hidden_size", "mlp_activation_fn", "layer_norm", "norm_eps")
"""Settings of encoder and decoder that share one hparam here."""
_DEFAULTS = {"mlp_activation_fn": "relu", "layer_norm": "standard", "norm_eps": 1e-5}
_HEADS = "heads"
_TABLES = ("src_emb.embeddings.weight", "tgt_emb.embeddings.weight")
"""Names of the tables of inputs and targets; a shared table is stored only once."""
_SPECIAL = {"pad": "<blank>", "eos": "</s>", "unk": "<unk>"}


def read_folder(folder: ModelFolder) -> ForeignModel:
    """Reads the files of a folder.

    Raises:
        UserError: a file is missing or damaged, or the network is not supported.
    """
    where = str(folder.path / "config.json")
    model = folder.config.get("model")
    model = model if isinstance(model, dict) else {}
    encoder, decoder = ({**_common(model), **(model.get(side) or {})} for side in ("encoder", "decoder"))
    wrong = unknown_values(model.get("embeddings") or {}, _EMBEDDINGS)
    wrong += [text for stack in (encoder, decoder) for text in unknown_values(stack, _STACK)]
    values = {name: [stack.get(name, _DEFAULTS.get(name)) for stack in (encoder, decoder)] for name in _SAME}
    wrong += [f"{name}={a!r} in the encoder and {b!r} in the decoder" for name, (a, b) in values.items() if a != b]
    if not model.get("encoder") or not model.get("decoder"):
        wrong = ["it has no encoder and decoder"]
    if wrong:
        raise UserError(f"{where} describes another network than those here: {'; '.join(wrong)}; it cannot be imported")
    vocab, arrays = folder.read_json("vocab.json"), _read_arrays(folder)
    source, target = _TABLES
    target = source if model.get("share_embeddings") and target not in arrays else target
    special = vocab.get("specials") if isinstance(vocab.get("specials"), dict) else {}
    activation = _ACTIVATIONS[values["mlp_activation_fn"][0]]
    return ForeignModel(
        names=EOLE,
        tables=(source, target, target if model.get("share_decoder_embeddings") and OUTPUT not in arrays else OUTPUT),
        origin=str(folder.path),
        arrays=arrays,
        tokens={side: _tokens(folder, vocab, side) for side in ("src", "tgt")},
        special={name: special.get(f"{name}_token") or usual for name, usual in _SPECIAL.items()}
        | {"start": vocab.get("decoder_start_token") or special.get("bos_token") or "<s>"},
        heads=encoder.get(_HEADS, 8),
        decoder_heads=decoder.get(_HEADS, 8),
        activation=activation,
        norm_type="rms" if values["layer_norm"][0] == "rms" else "layer",
        norm_epsilon=float(values["norm_eps"][0]),
        scales_embeddings=True,
        settings={},
        alignment=trained_alignment(decoder),
    )


def _common(model: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the settings of the whole model, which settings of a stack override."""
    return {name: value for name, value in model.items() if name in (*_STACK, *_SAME, _HEADS)}


def _tokens(folder: ModelFolder, vocab: Mapping[str, Any], side: str) -> list[str]:
    tokens = vocab.get(side)
    if not isinstance(tokens, list) or not all(isinstance(token, str) for token in tokens):
        raise UserError(f"{folder.path / 'vocab.json'}: its {side} is no list of tokens; get it again")
    return tokens


def _read_arrays(folder: ModelFolder) -> Arrays:
    """Returns the tensors of all shards."""
    names = sorted(path.name for path in folder.path.glob("model.*safetensors"))
    if not names:
        raise UserError(f"--model_dir={folder.path}: no model.00.safetensors there; copy all files of the model")
    arrays: Arrays = {}
    for name in names:
        try:
            arrays |= parse_arrays(folder.read(name))
        except ValueError as error:
            raise UserError(f"{folder.path / name}: {one_line(error)}; get the file again") from error
    return arrays
