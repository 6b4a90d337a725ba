"""Converts a Transformer to transformers' `MarianMTModel`: post-norm, sinusoids, one shared embedding table.

transformers computes the sinusoids itself, all sines before all cosines, and does not store them. For interleaved
sinusoids, the channels of all weights are permuted instead: channel c of the model there is channel order[c] here. The
outputs stay the same, since norms and products are sums over channels.

Its decoder starts from the embedding of an id. If ours starts from zeros and padding has an embedding, as in runs
trained here, an id with a zero vector is added, and a bias prevents it from being generated.

Legend: D width, E channels of a layer's output, V vocabulary.
"""

import numpy as np

from t2t.checkpoints.arrays import Arrays
from t2t.formats.huggingface.mapping import (
    MARIAN_ACTIVATIONS,
    MARIAN_FIXED,
    MARIAN_NORM_EPSILON,
    MARIAN_RATES,
    MARIAN_SIZES,
    NEVER,
    Kind,
    MappedModule,
    backwards,
    transformer_parts,
)
from t2t.formats.huggingface.network import Network, complaints, part_tensors, weights_of
from t2t.hparams.transformer import TransformerHParams
from t2t.models.transformer import Transformer
from t2t.specs.constants import EOS_ID, PAD_ID

_WANTED = {
    "norm_position": ("post",),
    "norm_type": ("layer",),
    "positions": ("sinusoidal",),
    "activation": tuple(backwards(MARIAN_ACTIVATIONS)),
    "gated_feed_forward": (False,),
    "target_start": ("zero", "pad"),
    "shared_embedding_and_softmax_weights": (True,),
}


def marian_complaints(hparams: TransformerHParams) -> list[str]:
    """Returns the settings that Marian's network does not support."""
    found = complaints(hparams, _WANTED)
    if hparams.positions == "sinusoidal":
        found += complaints(hparams, {"sinusoid_layout": ("interleaved", "halves")})
    if hparams.key_channels != hparams.hidden_size:
        found.append(f"attention_key_channels={hparams.key_channels} (known: {hparams.hidden_size}, the width)")
    if hparams.norm_epsilon > MARIAN_NORM_EPSILON:
        found.append(f"norm_epsilon={hparams.norm_epsilon:g} (known: {MARIAN_NORM_EPSILON:g}, and what is near it)")
    return found


def marian_network(model: Transformer) -> Network:
    """Returns the configuration and tensors of a model that has no complaints."""
    hparams, weights = model.hparams, weights_of(model)
    parts = list(transformer_parts(hparams.encoder_layers, hparams.decoder_layers))
    tensors, order = part_tensors(parts, weights), _order(hparams)
    for part in parts:
        _fill_bias(part, tensors)
        for name in ("weight", "bias"):
            tensors[f"{part.theirs}.{name}"] = _reordered(tensors[f"{part.theirs}.{name}"], name, part.kind, order)
    table_VD = np.asarray(model.target_embedding.table)[:, order]
    bias_V = np.zeros(len(table_VD), np.float32) if model.top.bias is None else np.asarray(model.top.bias)
    start = PAD_ID
    if hparams.target_start == "zero" and np.any(table_VD[PAD_ID]):
        start = len(table_VD)
        table_VD = np.concatenate([table_VD, np.zeros_like(table_VD[:1])])
        bias_V = np.append(bias_V, np.float32(NEVER))
    tensors |= {"model.shared.weight": table_VD, "final_logits_bias": bias_V[None, :]}
    return Network(_config(hparams, len(table_VD), start), tensors, start, hparams.max_length)


def _config(hparams: TransformerHParams, vocab_size: int, start: int) -> dict:
    decoder = hparams.of_decoder
    own = {
        "num_encoder_layers": hparams.encoder_layers, "num_decoder_layers": hparams.decoder_layers,
        "num_decoder_heads": decoder.num_heads, "decoder_filter_size": decoder.filter_size,
    }  # fmt: skip
    sizes = {theirs: own.get(ours) or getattr(hparams, ours) for theirs, ours in MARIAN_SIZES.items()}
    return {
        "model_type": "marian",
        "architectures": ["MarianMTModel"],
        "is_encoder_decoder": True,
        "dtype": "float32",
        "vocab_size": vocab_size,
        "decoder_vocab_size": vocab_size,
        **sizes,
        **{theirs: getattr(hparams, ours) for theirs, (ours, _) in MARIAN_RATES.items()},
        "activation_function": backwards(MARIAN_ACTIVATIONS)[hparams.activation],
        **MARIAN_FIXED,
        "share_encoder_decoder_embeddings": True,
        "pad_token_id": PAD_ID,
        "eos_token_id": EOS_ID,
        "bos_token_id": None,
        "forced_eos_token_id": EOS_ID,
        "decoder_start_token_id": start,
    }


def _order(hparams: TransformerHParams) -> np.ndarray:
    """Returns our channel for each channel in transformers, (D,)."""
    channels = np.arange(hparams.hidden_size)
    return channels if hparams.sinusoid_layout == "halves" else channels.reshape(-1, 2).T.reshape(-1)


def _fill_bias(part: MappedModule, tensors: Arrays) -> None:
    """Adds a zero bias to a linear map that has none here."""
    tensors.setdefault(f"{part.theirs}.bias", np.zeros(len(tensors[f"{part.theirs}.weight"]), np.float32))


def _reordered(array: np.ndarray, name: str, kind: Kind, order_D: np.ndarray) -> np.ndarray:
    """Returns a tensor with its width channels in the order of transformers."""
    if kind == Kind.READS:
        return array[:, order_D] if name == "weight" else array
    return array[order_D]
