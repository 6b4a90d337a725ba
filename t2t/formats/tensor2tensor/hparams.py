"""The settings of a Tensor2Tensor run, `hparams.json` and `flags.txt`; translates its hparams.

Unsupported network settings are an error; training settings without a counterpart cause a warning.
"""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from t2t.errors import UserError, one_line
from t2t.files.atomic import os_errors_as_machine_errors
from t2t.formats.importer import unknown_values
from t2t.hparams.base import noam_rate
from t2t.hparams.transformer import TransformerHParams, transformer_base

_NEEDED = ("hidden_size", "num_hidden_layers", "num_heads", "filter_size")
_SAME = (
    *_NEEDED, "num_encoder_layers", "num_decoder_layers", "attention_key_channels", "attention_value_channels",
    "norm_epsilon", "attention_dropout", "relu_dropout", "label_smoothing", "optimizer_adam_beta1",
    "optimizer_adam_beta2", "optimizer_adam_epsilon", "learning_rate_warmup_steps", "clip_grad_norm", "batch_size",
    "symbol_dropout", "max_input_seq_length", "max_target_seq_length",
)  # fmt: skip
"""Fields with the same name and meaning in both."""

_UNDERSTOOD = {
    "self_attention_type": (
        "dot_product",
        "dot_product_relative",
        "dot_product_relative_v2",
        "dot_product_unmasked_relative_v2",
    ),
    "add_relative_to_values": (False,),
    "ffn_layer": ("dense_relu_dense", "conv_hidden_relu"),
    "norm_type": ("layer",),
    "multiply_embedding_mode": ("sqrt_depth",),
    "prepend_mode": ("none",),
    "proximity_bias": (False,),
    "factored_logits": (False,),
    "symbol_modality_skip_top": (False,),
    "attention_variables_3d": (False,),
    "unidirectional_encoder": (False,),
    "causal_decoder_self_attention": (True,),
    "use_target_space_embedding": (True, False),
    "pos": ("timing", "none", None),
}
"""Network settings with their supported values; the first value is the default of a missing setting."""

_NEUTRAL = {
    "weight_decay": 0.0, "weight_noise": 0.0, "grad_noise_scale": 0.0, "scheduled_sampling_prob": 0.0,
    "heads_share_relative_embedding": False,
}  # fmt: skip
"""Training settings without a counterpart, with the value that has no effect."""

_ORDERS = {("none", "dan"): "post", ("", "dan"): "post", ("n", "da"): "pre"}
"""(`layer_preprocess_sequence`, `layer_postprocess_sequence`) -> `norm_position`."""


READ = frozenset(
    (
        *_SAME, *_UNDERSTOOD, *_NEUTRAL, "shared_embedding", "shared_embedding_and_softmax_weights",
        "layer_prepostprocess_dropout", "residual_dropout", "max_length", "max_relative_position",
        "layer_preprocess_sequence", "layer_postprocess_sequence", "optimizer", "optimizer_multistep_accumulate_steps",
        "learning_rate", "learning_rate_schedule", "learning_rate_constant", "learning_rate_decay_scheme",
    )
)  # fmt: skip
"""All fields that are translated, checked or warned about."""


def translate(
    values: Mapping[str, Any], attention_bias: bool, what: str = "hparams.json"
) -> tuple[TransformerHParams, tuple[str, ...]]:
    """Translates the hparams of Tensor2Tensor's Transformer; also returns warnings about what was lost.

    Args:
        values: by name.
        attention_bias: whether the checkpoint's attention has biases, which is in no hparam of Tensor2Tensor.
        what: where the values come from, for messages.

    Raises:
        UserError: a field is missing, or the network differs from the Transformer here.
    """
    try:
        _check_network(values)
        changes = {name: values[name] for name in _SAME if name in values}
        changes |= _network(values) | {"attention_bias": attention_bias}
        training, warnings = _training(values)
        hparams = transformer_base().replace(**{**changes, **training})
        hparams.replace().freeze()
    except UserError as error:
        raise error.at(what) from error
    return hparams, tuple(warnings)


def _check_network(values: Mapping[str, Any]) -> None:
    if missing := [name for name in _NEEDED if name not in values]:
        raise UserError(f"it lacks {', '.join(missing)}", "it is not of a Transformer of Tensor2Tensor")
    if wrong := unknown_values(values, _UNDERSTOOD):
        raise UserError(
            f"it describes another network than the Transformer here: {'; '.join(wrong)}",
            "only plain Transformers can be imported",
        )


def _network(values: Mapping[str, Any]) -> dict[str, Any]:
    tied = bool(values.get("shared_embedding_and_softmax_weights", False))
    return _positions(values) | {
        "norm_position": _norm_position(values),
        "target_space_embedding": bool(values.get("use_target_space_embedding", True)),
        "shared_embedding": tied or bool(values.get("shared_embedding", False)),
        "shared_embedding_and_softmax_weights": tied,
        "layer_prepostprocess_dropout": values.get("layer_prepostprocess_dropout", values.get("residual_dropout", 0.0)),
        "max_length": values.get("max_length") or values.get("batch_size", 4096),
        "label_smoothing_kind": "others",
    }


def _positions(values: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the hparams of positions, added to embeddings or in self-attention."""
    added, kind = values.get("pos", "timing"), str(values.get("self_attention_type"))
    distance = values.get("max_relative_position", 0)
    if kind != "dot_product_relative":
        own = {"positions": "sinusoidal", "sinusoid_layout": "split"} if added == "timing" else {"positions": "none"}
        if not kind.endswith("relative_v2"):
            return own
        if not distance:
            raise UserError(f"self_attention_type={kind!r} with max_relative_position=0", "give a distance above 0")
        return own | {"relative_keys": distance}
    if added == "timing":
        raise UserError(
            "self_attention_type='dot_product_relative' with pos='timing'; the Transformer here has one kind of "
            "positions",
            "relative ones can be imported with pos='none' or null",
        )
    return {"positions": "relative", "max_relative_position": distance}


def _norm_position(values: Mapping[str, Any]) -> str:
    """Returns `norm_position`; the first versions lacked these hparams and used the paper's order."""
    order = values.get("layer_preprocess_sequence", "none"), values.get("layer_postprocess_sequence", "dan")
    if order not in _ORDERS:
        raise UserError(
            f"layer_preprocess_sequence={order[0]!r} with layer_postprocess_sequence={order[1]!r}",
            "known are none with dan (norm after), and n with da (norm before)",
        )
    return _ORDERS[order]


def _training(values: Mapping[str, Any]) -> tuple[dict[str, Any], list[str]]:
    """Returns the training hparams, and warnings."""
    changes, warnings = _schedule(values)
    steps = values.get("optimizer_multistep_accumulate_steps", 0)
    if steps and "batch_size" in values:
        changes["effective_batch_size"] = steps * values["batch_size"]
    optimizer = str(values.get("optimizer", "adam")).lower()
    if optimizer == "adafactor":
        changes["optimizer"] = optimizer
    elif "adam" not in optimizer or "adamw" in optimizer:
        warnings.append(f"optimizer={values['optimizer']}: training continues with adam")
    warnings += [
        f"{name}={values[name]}: training continues without"
        for name, neutral in _NEUTRAL.items()
        if values.get(name, neutral) != neutral
    ]
    return changes, warnings


def _schedule(values: Mapping[str, Any]) -> tuple[dict[str, Any], list[str]]:
    """Returns the hparams of the learning rate schedule, which may be a product of factors, and warnings."""
    warmup = max(int(values.get("learning_rate_warmup_steps", 4000)), 1)
    composed = values.get("learning_rate_schedule", "legacy")
    factors = set(str(composed).split("*"))
    if factors == {"legacy"} and values.get("learning_rate_decay_scheme", "noam") == "noam":
        return {"learning_rate": noam_rate(values.get("learning_rate", 0.1))}, []
    constant = values.get("learning_rate_constant", 1.0)
    if factors == {"constant", "linear_warmup", "rsqrt_decay", "rsqrt_hidden_size"}:
        return {"learning_rate": constant}, []
    if factors in ({"rsqrt_decay"}, {"constant", "rsqrt_decay"}):
        return {"learning_rate_schedule": "rsqrt_decay", "learning_rate": constant if len(factors) > 1 else 1.0}, []
    if factors == {"constant", "linear_warmup", "rsqrt_decay"}:
        return {"learning_rate_schedule": "inverse_sqrt", "learning_rate": constant * warmup**-0.5}, []
    if factors == {"constant"}:
        return {"learning_rate_schedule": "constant", "learning_rate": constant, "learning_rate_warmup_steps": 0}, []
    asked = values.get("learning_rate_decay_scheme") if factors == {"legacy"} else composed
    return {}, [f"learning rate schedule {asked}: training continues with the paper's (noam)"]


def read_hparams(folder: Path) -> dict[str, Any]:
    """Returns the content of `hparams.json`; raises UserError if it is missing or no JSON object."""
    path = folder / "hparams.json"
    if not path.is_file():
        raise UserError(
            "no hparams.json there", "name the output_dir of a Tensor2Tensor run", option="model_dir", value=folder
        )
    with os_errors_as_machine_errors(f"cannot read {path}"):
        content = path.read_bytes()
    try:
        values = json.loads(content)
    except (ValueError, RecursionError) as error:
        raise UserError(f"{path} is not JSON ({one_line(error)})", "restore it from a copy") from error
    if not isinstance(values, dict):
        raise UserError(f"{path} holds {type(values).__name__}, not names with values", "restore it from a copy")
    return values


def named_problem(model_dir: Path) -> str:
    """Returns the name of a run's problem from its `flags.txt`; raises UserError if it is not there."""
    read_hparams(model_dir)  # without which it is no run
    try:
        lines = (model_dir / "flags.txt").read_text(encoding="utf-8", errors="replace").split("\n")
    except OSError:
        lines = []
    flags = dict(line.strip().removeprefix("--").split("=", 1) for line in lines if "=" in line)
    if name := flags.get("problem") or flags.get("problems"):
        return name
    raise UserError(
        f"not given, and {model_dir} has no flags.txt that names it",
        "name the problem here that the run was trained on",
        option="problem",
    )
