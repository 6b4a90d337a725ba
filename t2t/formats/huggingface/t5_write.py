"""Converts a Transformer to transformers' `T5ForConditionalGeneration`: RMS pre-norm, no biases, relative biases.

T5 scales neither attention scores nor embeddings, see `t2t.formats.huggingface.t5`. So W^Q is divided by sqrt(K), and
the embedding table multiplied by sqrt(D).

Legend: D width, K key channels of one head, V vocabulary.
"""

import numpy as np

from t2t.formats.huggingface.mapping import QUERY, T5_FEED_FORWARD, backwards, scaled, t5_parts
from t2t.formats.huggingface.network import Network, complaints, part_tensors, weights_of
from t2t.hparams.transformer import TransformerHParams
from t2t.models.transformer import Transformer
from t2t.specs.constants import EOS_ID, PAD_ID

_FORMS = backwards(T5_FEED_FORWARD)
_WANTED = {
    "norm_position": ("pre",),
    "norm_type": ("rms",),
    "positions": ("relative_bias",),
    "target_start": ("pad",),
    "attention_bias": (False,),
    "feed_forward_bias": (False,),
    "output_bias": (False,),
}


def t5_complaints(hparams: TransformerHParams) -> list[str]:
    """Returns the settings that T5's network does not support."""
    found = complaints(hparams, _WANTED)
    same = {"num_decoder_heads": (0, hparams.num_heads), "decoder_filter_size": (0, hparams.filter_size)}
    found += complaints(hparams, same)
    if (hparams.activation, hparams.gated_feed_forward) not in _FORMS:
        found.append(f"activation={hparams.activation} with gated_feed_forward={hparams.gated_feed_forward}")
    return found


def t5_network(model: Transformer) -> Network:
    """Returns the configuration and tensors of a supported model."""
    hparams = model.hparams
    head_size = hparams.key_channels // hparams.num_heads
    weights = {
        path: scaled(weight, head_size**-0.5) if path.endswith(f"{QUERY}kernel") else weight
        for path, weight in weights_of(model).items()
    }
    parts = t5_parts(hparams.encoder_layers, hparams.decoder_layers, hparams.gated_feed_forward)
    table_VD = scaled(np.asarray(model.target_embedding.table), hparams.hidden_size**0.5)
    tensors = part_tensors(parts, weights) | {"shared.weight": table_VD}
    is_tied = hparams.shared_embedding_and_softmax_weights
    if not is_tied:
        tensors["lm_head.weight"] = np.asarray(model.top.table())
    config = {
        "model_type": "t5",
        "architectures": ["T5ForConditionalGeneration"],
        "is_encoder_decoder": True,
        "dtype": "float32",
        "vocab_size": len(table_VD),
        "d_model": hparams.hidden_size,
        "d_kv": head_size,
        "d_ff": hparams.filter_size,
        "num_layers": hparams.encoder_layers,
        "num_decoder_layers": hparams.decoder_layers,
        "num_heads": hparams.num_heads,
        "relative_attention_num_buckets": hparams.relative_bias_buckets,
        "relative_attention_max_distance": hparams.relative_bias_max_distance,
        "dropout_rate": hparams.layer_prepostprocess_dropout,
        "layer_norm_epsilon": hparams.norm_epsilon,
        "feed_forward_proj": _FORMS[hparams.activation, hparams.gated_feed_forward],
        "tie_word_embeddings": is_tied,
        "pad_token_id": PAD_ID,
        "eos_token_id": EOS_ID,
        "decoder_start_token_id": PAD_ID,
    }
    return Network(config, tensors, PAD_ID, None)
