"""Layers of Transformers as fairseq names them, and who took its names over, such as transformers.

Kernels of PyTorch are transposed; see `Tensors.linear`.
"""

from t2t.checkpoints.arrays import Arrays
from t2t.importing.tensors import Tensors

_SUBLAYERS = {"self_attn": "self_attention", "encoder_attn": "encdec_attention"}


def layer_weights(tensors: Tensors, name: str, path: str, is_decoder: bool) -> Arrays:
    """Returns the weights of layer `name`, such as `encoder.layers.0`, by their paths below `path`."""
    weights = tensors.linear(f"{name}.fc1", f"{path}/ffn/inner/") | tensors.linear(f"{name}.fc2", f"{path}/ffn/outer/")
    weights |= tensors.norm(f"{name}.final_layer_norm", f"{path}/ffn_residual/norm")
    for attention in ("self_attn", "encoder_attn") if is_decoder else ("self_attn",):
        ours = f"{path}/{_SUBLAYERS[attention]}"
        for letter, part in (("q", "query"), ("k", "key"), ("v", "value")):
            weights |= tensors.linear(f"{name}.{attention}.{letter}_proj", f"{ours}/project/{part}_")
        weights |= tensors.linear(f"{name}.{attention}.out_proj", f"{ours}/output/")
        weights |= tensors.norm(f"{name}.{attention}_layer_norm", f"{ours}_residual/norm")
    return weights
