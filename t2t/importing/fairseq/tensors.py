"""Renames tensors of older versions of fairseq."""

import re

import numpy as np

from t2t.checkpoints.arrays import Arrays

_NORM = re.compile(r"(encoder|decoder)(\.layers\.\d+\.)layer_norms\.(\d)\.(weight|bias)")
_NORMS = {
    "encoder": ("self_attn_layer_norm", "final_layer_norm"),
    "decoder": ("self_attn_layer_norm", "encoder_attn_layer_norm", "final_layer_norm"),
}
_PACKED = re.compile(r"(.+_attn\.)in_proj_(weight|bias)")


def with_todays_names(arrays: Arrays) -> Arrays:
    """Returns the tensors by their names in version 0.12.

    In older versions norms were numbered within a layer, queries, keys and values were stacked in one matrix, and a
    separate output layer was `decoder.embed_out`.
    """
    found: Arrays = {}
    for name, array in arrays.items():
        if norm := _NORM.fullmatch(name):
            stack, layer, number, kind = norm.groups()
            found[f"{stack}{layer}{_NORMS[stack][int(number)]}.{kind}"] = array
        elif packed := _PACKED.fullmatch(name):
            parts = np.split(array, 3) if len(array) % 3 == 0 else [array]
            letters = "qkv" if len(parts) == 3 else "?"
            found |= {
                f"{packed[1]}{letter}_proj.{packed[2]}": part for letter, part in zip(letters, parts, strict=True)
            }
        else:
            found["decoder.output_projection.weight" if name == "decoder.embed_out" else name] = array
    return found
