"""Maps the variable names of Tensor2Tensor's Transformer to our paths.

Versions between these two mix both spellings:

    v1.0 (June 2017)   one packed product for queries, keys and values, with biases; norms numbered within a layer
        body/encoder/layer_0/encoder_self_attention/qkv_transform_single/kernel    (1, 1, D, 2K+U)
        body/decoder/layer_0/encdec_attention/kv_transform_single/bias             (K+U,)
        body/encoder/layer_0/layer_norm_1/layer_norm_scale                         (D,)
        body/encoder/layer_0/conv_hidden_relu/conv1_single/kernel                  (1, 1, D, F)
    v1.15 (the last)   a product each, without biases; norms named after their sub-layer
        transformer/body/encoder/layer_0/self_attention/multihead_attention/q/kernel            (D, K)
        transformer/body/encoder/layer_0/self_attention/layer_prepostprocess/layer_norm/layer_norm_scale
        transformer/body/encoder/layer_0/ffn/conv1/kernel                                       (D, F)
        transformer/body/encoder/layer_0/self_attention/multihead_attention/
            dot_product_attention_relative/relative_positions_keys/embeddings                   (2k+1, K/H)
            dot_product_self_attention_relative_v2/key_relative_embeddings                      (H, k, K/H)
            dot_product_unmasked_self_attention_relative_v2/key_relative_embeddings             (H, 2k-1, K/H)
    both
        symbol_modality_<V>_<D>/shared/weights_<shard>                             rows of the embedding table
        body/target_space_embedding/kernel                                         (32, D)

Legend: D width, F inner width, H heads, K channels of all keys, U channels of all values, V vocabulary, k largest
relative position.
"""

import re
from dataclasses import dataclass

RELATIVE_KEYS = "relative_keys/vectors"
"""End of the path of vectors that each head has; Tensor2Tensor's heads may share them."""
TARGET_SPACE = "target_space"
"""Path of the target space vector, one row of Tensor2Tensor's table."""

_NETWORK = re.compile(r"(?:.*/)?((?:symbol_modality_\d+_\d+|body)/.+)")
_TABLE = re.compile(r"symbol_modality_(\d+)_\d+/(shared|input_emb|target_emb|softmax)/weights_(\d+)")
_TABLES = {
    "shared": "target_embedding/table",
    "input_emb": "source_embedding/table",
    "target_emb": "target_embedding/table",
    "softmax": "output_embedding/table",
}
_IN_LAYER = re.compile(r"body/(encoder|decoder)/(layer_\d+)/(.+)")
_ATTENTION = re.compile(
    r"(?:encoder_|decoder_)?(self_attention|encdec_attention)/(?:multihead_attention/)?"
    r"(q|k|v|qkv|kv|output)(?:_transform)?(?:_single)?/(kernel|bias)"
)
_RELATIVE = re.compile(
    r"self_attention/multihead_attention/dot_product_attention_relative/relative_positions_(keys|values)/embeddings"
)
_RELATIVE_KEYS = re.compile(
    r"self_attention/multihead_attention/dot_product_(?:unmasked_)?self_attention_relative_v2/key_relative_embeddings"
)
_FEED_FORWARD = re.compile(r"(?:ffn/)?(?:conv_hidden_relu/)?conv([12])(?:_single)?/(kernel|bias)")
_NORM = re.compile(
    r"(self_attention|encdec_attention|ffn)/layer_(?:pre|post|prepost)process/layer_norm/layer_norm_(scale|bias)"
)
_NUMBERED_NORM = re.compile(r"layer_norm(?:_(\d))?/layer_norm_(scale|bias)")
_FINAL_NORM = re.compile(r"body/(encoder|decoder)/layer_(?:pre|post|prepost)process/layer_norm/layer_norm_(scale|bias)")
_PROJECTIONS = {"q": "query", "k": "key", "v": "value"}
_NORM_WEIGHTS = {"scale": "gamma", "bias": "beta"}
_SUBLAYERS = {"encoder": ("self_attention", "ffn"), "decoder": ("self_attention", "encdec_attention", "ffn")}


@dataclass(frozen=True)
class Place:
    """The weights that a variable of Tensor2Tensor becomes."""

    paths: tuple[str, ...]
    """Our paths without the model's name; several if the variable packs their arrays side by side."""
    shard: int | None = None
    """Index of the block of rows, for an embedding table."""
    vocab_size: int | None = None
    """Number of rows of the whole embedding table."""


def network_name(name: str) -> str | None:
    """Returns the name within the network, `body/...` or `symbol_modality_...`; None for other variables."""
    found = _NETWORK.fullmatch(name)
    return found[1] if found else None


def parse_name(name: str) -> Place | None:
    """Returns the `Place` of a variable by its `network_name`; None if it is unknown."""
    if name == "body/target_space_embedding/kernel":
        return Place((TARGET_SPACE,))
    if found := _TABLE.fullmatch(name):
        return Place((_TABLES[found[2]],), shard=int(found[3]), vocab_size=int(found[1]))
    if found := _FINAL_NORM.fullmatch(name):
        return Place((f"{found[1]}/final_norm/{_NORM_WEIGHTS[found[2]]}",))
    if found := _IN_LAYER.fullmatch(name):
        stack, layer, rest = found.groups()
        paths = _paths_in_layer(stack, rest)
        return Place(tuple(f"{stack}/{layer}/{path}" for path in paths)) if paths else None
    return None


def _paths_in_layer(stack: str, name: str) -> tuple[str, ...]:
    if found := _ATTENTION.fullmatch(name):
        which, letters, kind = found.groups()
        if letters == "output":
            return (f"{which}/output/{kind}",)
        return tuple(f"{which}/project/{_PROJECTIONS[letter]}_{kind}" for letter in letters)
    if found := _RELATIVE.fullmatch(name):
        return (f"self_attention/relative_positions/{found[1]}",)
    if _RELATIVE_KEYS.fullmatch(name):
        return (f"self_attention/{RELATIVE_KEYS}",)
    if found := _FEED_FORWARD.fullmatch(name):
        return (f"ffn/{'inner' if found[1] == '1' else 'outer'}/{found[2]}",)
    if found := _NORM.fullmatch(name):
        return (f"{found[1]}_residual/norm/{_NORM_WEIGHTS[found[2]]}",)
    if found := _NUMBERED_NORM.fullmatch(name):
        number = int(found[1] or 0)
        if number < len(_SUBLAYERS[stack]):
            return (f"{_SUBLAYERS[stack][number]}_residual/norm/{_NORM_WEIGHTS[found[2]]}",)
    return ()
