"""Reads a file of OpenNMT-py, versions 2 and 3: `<name>_step_<n>.pt`.

It is a pickle of `model` and `generator`, tensors by name; `opt`, the settings; `vocab`, the tokens; and `optim`.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from t2t.errors import UserError, one_line
from t2t.formats.folder import ModelFolder
from t2t.formats.importer import unknown_values
from t2t.formats.opennmt.model import OPENNMT_PY, OUTPUT, ForeignModel, trained_alignment
from t2t.formats.pytorch import parse_pytorch_values

_KNOWN: Mapping[str, tuple[Any, ...]] = {
    "encoder_type": ("transformer",), "decoder_type": ("transformer",), "model_task": ("seq2seq",),
    "model_type": ("text",), "self_attn_type": ("scaled-dot", "scaled-dot-flash"), "copy_attn": (False,),
    "coverage_attn": (False,), "generator_function": ("softmax",), "layer_norm": ("standard", "rms"),
    "pos_ffn_activation_fn": ("relu", "gelu", "silu", "gated-gelu"), "parallel_residual": (False,),
    "relative_positions_buckets": (0,), "num_kv": (0,), "num_experts": (0,), "sliding_window": (0,),
    "lora_layers": ([],), "quant_layers": ([],), "multiquery": (False,),
}  # fmt: skip
"""Settings with the values that our network supports; a missing setting is from an older version, and supported."""
_TABLE = "{}.embeddings.make_embedding.emb_luts.0.weight"
_PARTS = ("model", "generator", "vocab", "opt")


def read_file(folder: ModelFolder, name: str) -> ForeignModel:
    """Reads a file; nothing in it is executed.

    Raises:
        UserError: it is damaged, its vocabulary is of an older version, or its network is not supported.
    """
    path = folder.path / name
    state = _parts(path, folder.read(name))
    opt = state["opt"]
    if wrong := unknown_values(opt, _KNOWN):
        raise UserError(f"{path} holds another network than those here: {'; '.join(wrong)}; it cannot be imported")
    distance, adds_positions = opt.get("max_relative_positions", 0), bool(opt.get("position_encoding", False))
    if distance < 0 or (distance and adds_positions):
        raise UserError(
            f"{path} has position_encoding={adds_positions} and max_relative_positions={distance}; known here are "
            f"added positions, or relative ones (a distance above 0); it cannot be imported"
        )
    return ForeignModel(
        names=OPENNMT_PY,
        tables=(_TABLE.format("encoder"), _TABLE.format("decoder"), OUTPUT),
        origin=str(path),
        arrays={**state["model"], **{_generator_name(name): array for name, array in state["generator"].items()}},
        tokens=_tokens(state["vocab"], path),
        special={"pad": "<blank>", "eos": "</s>", "unk": "<unk>", "start": _start(state["vocab"], opt)},
        heads=_number(opt, "heads", path),
        decoder_heads=_number(opt, "heads", path),
        activation=opt.get("pos_ffn_activation_fn", "relu"),
        norm_type="rms" if opt.get("layer_norm") == "rms" else "layer",
        norm_epsilon=float(opt.get("norm_eps", 1e-6)),
        scales_embeddings=adds_positions,
        settings=_dropouts(opt),
        alignment=trained_alignment(opt),
    )


def _parts(path: Path, content: bytes) -> dict[str, dict[str, Any]]:
    """Returns the required parts of the file."""
    try:
        state = parse_pytorch_values(content)
    except ValueError as error:
        cure = "save it by OpenNMT-py 3, whose vocabularies are lists" if "torchtext" in str(error) else "get it again"
        raise UserError(f"{path}: {one_line(error)}; {cure}") from error
    missing = [name for name in _PARTS if not (isinstance(state, dict) and isinstance(state.get(name), dict))]
    if missing:
        raise UserError(
            f"{path}: it has no {', '.join(missing)}, as files of OpenNMT-py with weights have; name such a file"
        )
    tensors = {**state["model"], **state["generator"]}
    if wrong := [name for name, value in tensors.items() if not isinstance(value, np.ndarray)]:
        raise UserError(f"{path}: {wrong[0]} is no tensor; get it again")
    return state


def _generator_name(name: str) -> str:
    """Returns the name of a tensor of the output layer, which version 2 numbers."""
    return f"generator.{name.removeprefix('0.')}"


def _tokens(vocab: Mapping[str, Any], path: Path) -> dict[str, list[str]]:
    for side in ("src", "tgt"):
        if not isinstance(vocab.get(side), list) or not all(isinstance(token, str) for token in vocab[side]):
            raise UserError(f"{path}: its vocabulary of {side} is no list of tokens; save it by OpenNMT-py 3")
    if vocab.get("src_feats"):
        raise UserError(f"{path}: its inputs have features besides words (src_feats); it cannot be imported")
    return {side: vocab[side] for side in ("src", "tgt")}


def _start(vocab: Mapping[str, Any], opt: Mapping[str, Any]) -> str:
    return str(vocab.get("decoder_start_token") or opt.get("decoder_start_token") or "<s>")


def _number(opt: Mapping[str, Any], name: str, path: Path) -> int:
    if type(opt.get(name)) is not int:
        raise UserError(f"{path}: its settings have {name}={opt.get(name)!r}, which is no whole number; get it again")
    return int(opt[name])


def _dropouts(opt: Mapping[str, Any]) -> dict[str, float]:
    """Returns dropout rates and label smoothing; of dropouts for successive stages of training, the first is used."""
    found: dict[str, float] = {}
    for theirs, ours in (
        ("dropout", ("layer_prepostprocess_dropout", "relu_dropout")), ("attention_dropout", ("attention_dropout",))
    ):  # fmt: skip
        value = opt.get(theirs)
        value = value[0] if isinstance(value, list) and value else value
        found |= dict.fromkeys(ours, float(value)) if isinstance(value, int | float) else {}
    return found | ({"label_smoothing": float(opt["label_smoothing"])} if "label_smoothing" in opt else {})
