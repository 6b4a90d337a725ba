"""Converts the weights of an OpenNMT-tf network to our paths; matrices are (in, out) in both.

Legend: L positions, D width, V vocabulary.
"""

import numpy as np

from t2t.checkpoints.arrays import Arrays
from t2t.formats.tensors import Tensors
from t2t.hparams.transformer_bart import TransformerBartHParams

_MAPS = {"linear_queries": "project/query_", "linear_keys": "project/key_", "linear_values": "project/value_",
         "linear_output": "output/"}  # fmt: skip
_NORMS = ("input_layer_norm", "output_layer_norm")
"""Norm of a sub-layer in a pre-norm and in a post-norm network."""
_RELATIVE = {"keys": "relative_position_keys", "values": "relative_position_values"}
ATTRIBUTES = frozenset((
    "examples_inputter", "features_inputter", "labels_inputter", "embedding", "encoder", "decoder", "layers", "layer",
    "self_attention", "attention", "ffn", "inner", "outer", "layer_norm", *_NORMS, "position_encoder", "output_layer",
    "kernel", "bias", "gamma", "beta", *_MAPS, *_RELATIVE.values(),
))  # fmt: skip
"""Attributes of the model's objects that lead to its variables."""
_INPUTS, _TARGETS = (f"examples_inputter/{side}_inputter/embedding" for side in ("features", "labels"))
_OUTPUT = "decoder/output_layer"
_FIRST_ROW = 1
"""First used row of tables of positions, since OpenNMT-tf counts from 1."""


def convert_tables(tensors: Tensors) -> tuple[tuple[np.ndarray, np.ndarray, np.ndarray], np.ndarray | None]:
    """Returns the tables of inputs, targets and the output layer by foreign ids, (V, D), and the biases of logits.

    The output layer is a matrix (D, V), or the table of the targets, (V, D).
    """
    inputs, targets, outputs = (tensors.take(name) for name in (_INPUTS, _TARGETS, f"{_OUTPUT}/kernel"))
    is_table = outputs.shape == targets.shape and np.array_equal(outputs, targets)
    bias = f"{_OUTPUT}/bias"
    return (inputs, targets, outputs if is_table else outputs.T), tensors.take(bias) if bias in tensors else None


def convert_stacks(tensors: Tensors, hparams: TransformerBartHParams) -> Arrays:
    """Returns the weights of both stacks and of their positions."""
    weights: Arrays = {}
    for side, layers in (("encoder", hparams.encoder_layers), ("decoder", hparams.decoder_layers)):
        for number in range(layers):
            weights |= _layer(tensors, hparams, f"{side}/layers/{number}", f"{side}/layer_{number}")
        if hparams.norm_position == "pre":
            weights |= _norm(tensors, f"{side}/layer_norm", f"{side}/final_norm")
        if hparams.positions == "learned":
            table = tensors.take(f"{side}/position_encoder/embedding")[_FIRST_ROW:]
            path = "source_positions" if side == "encoder" else "target_positions"
            weights[f"{path}/positions/table"] = table
    return weights


def _layer(tensors: Tensors, hparams: TransformerBartHParams, name: str, path: str) -> Arrays:
    """Returns the weights of a layer."""
    parts = {"self_attention": "self_attention"}
    parts |= {"attention/0": "encdec_attention"} if name.startswith("decoder") else {}
    weights: Arrays = {}
    for theirs, ours in parts.items():
        for linear, ending in _MAPS.items():
            weights |= _dense(tensors, f"{name}/{theirs}/layer/{linear}", f"{path}/{ours}/{ending}")
    for linear in ("inner", "outer"):
        weights |= _dense(tensors, f"{name}/ffn/layer/{linear}", f"{path}/ffn/{linear}/")
    norm = _NORMS[hparams.norm_position == "post"]
    for theirs, ours in {**parts, "ffn": "ffn"}.items():
        weights |= _norm(tensors, f"{name}/{theirs}/{norm}", f"{path}/{ours}_residual/norm")
    if hparams.positions == "relative":
        for kind, theirs in _RELATIVE.items():
            table = tensors.take(f"{name}/self_attention/layer/{theirs}")
            weights[f"{path}/self_attention/relative_positions/{kind}"] = table
    return weights


def _dense(tensors: Tensors, name: str, path: str) -> Arrays:
    """Returns the kernel of a map, and its bias where it has one."""
    weights = {f"{path}kernel": tensors.take(f"{name}/kernel")}
    return weights | ({f"{path}bias": tensors.take(f"{name}/bias")} if f"{name}/bias" in tensors else {})


def _norm(tensors: Tensors, name: str, path: str) -> Arrays:
    return {f"{path}/{part}": tensors.take(f"{name}/{part}") for part in ("gamma", "beta")}
