"""The Transformer against an independent one in numpy (tests/reference/transformer.py)."""

import keras
import numpy as np
import pytest

from tests.builders import batch, numpy, padded, rows, tiny_transformer, tokens_spec, weights_of
from tests.models import check_same_logits, directional_derivatives, sentences
from tests.reference import transformer as reference
from tests.unit.models.references import reference_of

T5 = {
    "norm_position": "pre", "norm_type": "rms", "positions": "relative_bias", "relative_bias_buckets": 8,
    "relative_bias_max_distance": 6, "feed_forward_bias": False, "target_start": "pad", "attention_key_channels": 12,
    "attention_value_channels": 12,
}  # fmt: skip
CASES = {
    "paper": {},
    "pre-norm": {"norm_position": "pre"},
    "biases": {"attention_bias": True},
    "pre-norm with biases, learned positions": {
        "norm_position": "pre", "attention_bias": True, "positions": "learned",
    },
    "no positions": {"positions": "none"},
    "sines before cosines": {"sinusoid_layout": "split"},
    "sines before cosines of the same waves": {"sinusoid_layout": "halves"},
    "biases of logits": {"output_bias": True},
    "biases of logits, a table of their own": {"output_bias": True, "shared_embedding_and_softmax_weights": False},
    "other channels of keys and values": {
        "attention_key_channels": 4, "attention_value_channels": 12, "attention_bias": True,
    },
    "all tables separate": {"shared_embedding": False, "shared_embedding_and_softmax_weights": False},
    "tables separate, softmax tied": {"shared_embedding": False},
    "softmax separate": {"shared_embedding_and_softmax_weights": False},
    "stacks of different depth": {"num_encoder_layers": 3, "num_decoder_layers": 1},
    "four heads, large epsilon": {"num_heads": 4, "norm_epsilon": 0.3},
    "gelu": {"activation": "gelu"},
    "gelu by a sigmoid": {"activation": "gelu_sigmoid"},
    "the end of sequence before the first target": {
        "sinusoid_layout": "split", "target_start": "id", "attention_bias": True,
    },
    "two positions to each side": {"self_attention_window": 4},
    "a decoder of SSRU": {"decoder_layer": "ssru"},
    "a decoder of SSRU, pre-norm": {"decoder_layer": "ssru", "norm_position": "pre", "positions": "none"},
    "silu": {"activation": "silu", "norm_position": "pre"},
    "relative positions": {"positions": "relative", "max_relative_position": 2},
    "rotary positions": {"positions": "rotary"},
    "positions of words": {"positions": "words"},
    "positions of words, sines first": {"positions": "words", "sinusoid_layout": "split", "norm_position": "pre"},
    "the next word": {"positions": "words", "read_next_word": True},
    "rms norms": {"norm_type": "rms", "norm_epsilon": 0.1},
    "rms norms before": {"norm_type": "rms", "norm_position": "pre"},
    "two heads of keys and values": {"num_heads": 4, "num_kv_heads": 2, "attention_bias": True},
    "one head of keys and values, rotary positions, other channels": {
        "num_kv_heads": 1, "positions": "rotary", "attention_value_channels": 12,
    },
    "two heads of keys and values, relative positions": {
        "num_heads": 4, "num_kv_heads": 2, "positions": "relative", "max_relative_position": 2,
    },
    "ReGLU": {"gated_feed_forward": True},
    "GEGLU": {"gated_feed_forward": True, "activation": "gelu"},
    "SwiGLU": {"gated_feed_forward": True, "activation": "silu", "norm_position": "pre"},
    "rotary positions, six channels of keys in a head": {"positions": "rotary", "attention_key_channels": 12},
    "relative biases": {"positions": "relative_bias", "relative_bias_buckets": 8, "relative_bias_max_distance": 6},
    "relative biases, shared keys, a window": {
        "positions": "relative_bias", "relative_bias_buckets": 6, "relative_bias_max_distance": 5, "num_heads": 4,
        "num_kv_heads": 2, "self_attention_window": 6,
    },
    "T5": T5,
    "T5, version 1.1": {
        **T5, "activation": "gelu_tanh", "gated_feed_forward": True, "shared_embedding_and_softmax_weights": False,
    },
    "another id before the first target": {"target_start": "id", "target_start_id": 5, "norm_position": "pre"},
    "relative positions, other channels, a window": {
        "positions": "relative", "max_relative_position": 1, "self_attention_window": 6, "attention_value_channels": 12,
    },
}  # fmt: skip

SOURCES = (5, 3, 7)
TARGETS = (4, 6, 2)


def assert_same_logits(model, features):
    """Every position that holds data has the reference's logits, whatever else is in the batch."""
    check_same_logits(model, reference_of(model), features, rtol=2e-4, atol=2e-5)


@pytest.mark.parametrize("changes", CASES.values(), ids=CASES.keys())
def test_logits_are_those_of_the_reference(changes):
    assert_same_logits(tiny_transformer(**changes), batch(widths=(9, 8)))


def test_logits_with_different_vocabularies():
    model = tiny_transformer(tokens_spec(inputs=11, targets=17, shared=False))
    rng = np.random.default_rng(5)
    features = {"inputs": padded(rows(rng, SOURCES, 11), 9), "targets": padded(rows(rng, TARGETS, 17), 8)}
    assert {name: value.shape[0] for name, value in weights_of(model).items() if "embedding" in name} == {
        "source_embedding/table": 11, "target_embedding/table": 17,
    }  # fmt: skip
    assert_same_logits(model, features)


@pytest.mark.parametrize("norm_position", ["post", "pre"])
def test_logits_without_inputs(norm_position):
    model = tiny_transformer(tokens_spec(inputs=0), norm_position=norm_position)
    assert_same_logits(model, {"targets": batch(widths=(0, 8))["targets"]})


@pytest.mark.parametrize("positions", ["sinusoidal", "relative", "rotary", "relative_bias"])
def test_positions_beyond_the_longest_training_length(positions):
    assert_same_logits(tiny_transformer(max_length=4, positions=positions), batch(sources=(40,), targets=(45,)))


@pytest.mark.parametrize(("smoothing", "kind"), [(0.0, "all"), (0.1, "all"), (0.9, "all"), (0.1, "others")])
@pytest.mark.parametrize(
    "changes",
    [{}, CASES["pre-norm with biases, learned positions"], CASES["biases of logits"]],
    ids=["paper", "other", "biases of logits"],
)
def test_loss_is_that_of_the_distribution_written_out(smoothing, kind, changes):
    model = tiny_transformer(label_smoothing=smoothing, label_smoothing_kind=kind, **changes)
    features = batch(widths=(9, 8))
    plain = reference_of(model)
    expected = sum(
        reference.smoothed_loss(plain.logits(source, target), target, smoothing, kind)
        for source, target in sentences(features)
    )
    loss_sum, tokens = model.loss_sum(model.body(features), features["targets"])
    assert float(tokens) == sum(TARGETS)
    np.testing.assert_allclose(float(loss_sum), expected, rtol=1e-5)


@pytest.mark.parametrize(
    "changes",
    [
        {}, {"norm_position": "pre", "attention_bias": True}, {"gated_feed_forward": True},
        *(
            CASES[name]
            for name in (
                "relative positions", "rotary positions", "T5", "rms norms", "two heads of keys and values",
                "biases of logits",
            )
        ),
    ],
    ids=str,
)  # fmt: skip
def test_gradients_are_the_slopes_of_the_reference(changes):
    """Central differences of the numpy loss, along a direction of each weight."""
    model = tiny_transformer(label_smoothing=0.1, num_hidden_layers=1, activation="gelu", **changes)
    features = batch(sources=(4, 2), targets=(3, 4))

    def loss(weights):
        plain = reference_of(model, weights)
        return sum(reference.smoothed_loss(plain.logits(*pair), pair[1], 0.1) for pair in sentences(features))

    for path, found, expected in directional_derivatives(model, features, loss):
        # A bias on all keys adds the same to every score of a query, which softmax ignores.
        assert abs(expected) > 1e-3 or "key_bias" in path, path
        np.testing.assert_allclose(found, expected, rtol=1e-3, atol=1e-4, err_msg=path)


@pytest.mark.parametrize(
    ("policy", "tolerance"), [("mixed_bfloat16", 0.15), ("mixed_float16", 0.02)], ids=["bfloat16", "float16"]
)
def test_mixed_precision_is_near_and_its_logits_are_float32(policy, tolerance):
    features = batch(widths=(9, 8))
    exact, mixed = (tiny_transformer(dtype=dtype) for dtype in ("float32", policy))
    assert {v.dtype for v in mixed.variables} == {"float32"}
    logits = mixed(features)
    assert keras.backend.standardize_dtype(logits.dtype) == "float32"
    keep = features["targets"] != 0
    assert 0 < np.abs(numpy(logits) - numpy(exact(features)))[keep].max() < tolerance
