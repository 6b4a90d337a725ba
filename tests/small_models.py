"""Small versions of all registered models, in the variants that their hparams allow."""

import dataclasses

from t2t.registry import MODELS
from t2t.specs.features import FeatureKind

NAMES = [entry.name for entry in MODELS.entries() if not entry.alias_of]
SMALL = {
    "hidden_size": 8, "filter_size": 12, "num_hidden_layers": 2, "num_decoder_layers": 1, "num_heads": 2,
    "max_length": 16, "label_smoothing": 0.1, "num_experts": 3, "num_rec_steps": 2, "layer_sizes": (1, 1),
    "img_len": 2, "block_length": 3,
}  # fmt: skip
"""Hparams of a small model; each family uses those that it has."""
VARIANTS = {
    "default": {},
    "other norms and positions": {"norm_position": "pre", "positions": "learned", "attention_bias": True},
    "tables of their own": {"shared_embedding": False, "shared_embedding_and_softmax_weights": False},
    "a window, vectors of each head": {"self_attention_window": 5, "relative_keys": 3},
    "a recurrent decoder": {"decoder_layer": "ssru"},
    "relative positions": {"positions": "relative", "max_relative_position": 2},
    "rotary positions, shared keys, gates, other norms": {
        "positions": "rotary",
        "num_kv_heads": 1,
        "gated_feed_forward": True,
        "norm_type": "rms",
        "norm_position": "pre",
    },
    "relative biases, no biases of maps": {
        "positions": "relative_bias",
        "relative_bias_buckets": 8,
        "relative_bias_max_distance": 5,
        "feed_forward_bias": False,
        "activation": "gelu_tanh",
        "target_start": "pad",
    },
    "both directions": {"encoder_direction": "bidirectional"},
    "gated units": {"cell": "gru"},
    "multiplicative attention": {"attention_mechanism": "luong"},
    "a convolutional encoder": {"encoder": "convolutional"},
    "several rows and steps": {"state_rows": 3, "steps_per_position": 2},
    "projected cells, experts in two levels": {"cell_units": 10, "num_experts": 9, "expert_groups": 3},
    "adaptive computation time": {"recurrence_type": "act", "act_max_steps": 3},
}


def small_hparams(model_class, variant):
    """Returns small model hparams without dropout, or None if the family lacks hparams of the variant.

    The Evolved Transformer cannot share biases of heads, since its layers have different numbers of heads. An
    encoder alone has no decoder layers.
    """
    fields = {field.name for field in dataclasses.fields(model_class.hparams_class)}
    has_two_numbers_of_heads = model_class.registered_name() == "evolvedtransformer"
    if not set(variant) <= fields or (has_two_numbers_of_heads and variant.get("positions") == "relative_bias"):
        return None
    values = {name: value for name, value in SMALL.items() if name in fields}
    if model_class.registered_name() == "shakeshake":
        values["num_hidden_layers"] = 8
    if model_class.registered_name() == "transformerencoder":
        if "decoder_layer" in variant:
            return None
        del values["num_decoder_layers"]
    no_dropout = {name: 0.0 for name in fields if name.endswith("dropout")}
    return model_class.hparams_class(**(values | no_dropout | variant))


def takes(model_class, spec):
    kind = spec.inputs.kind if spec.inputs else None
    return kind in model_class.accepts_inputs and FeatureKind.TOKENS in model_class.accepts_targets
