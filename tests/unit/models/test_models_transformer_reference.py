"""Transformers against an independent one in numpy (tests/reference/transformer.py).

Legend: B batch, H heads, T queries, S keys.
"""

import keras
import numpy as np
import pytest

from t2t.hparams.transformer_bart import TransformerBartHParams
from t2t.layers.mode import in_mode
from t2t.models.transformer_bart import TransformerBart
from tests.builders import batch, numpy, padded, randomise, rows, tiny_transformer, tokens_spec, weights_of
from tests.errors import refused
from tests.models import check_same_logits, directional_derivatives, sentences
from tests.reference import transformer as reference
from tests.reference.transformer import recorded_softmaxes
from tests.unit.models.references import architecture_of, reference_of, tiny

T5 = {
    "norm_position": "pre", "norm_type": "rms", "positions": "relative_bias", "relative_bias_buckets": 8,
    "relative_bias_max_distance": 6, "feed_forward_bias": False, "target_start": "pad", "attention_key_channels": 12,
    "attention_value_channels": 12,
}  # fmt: skip
ONE = {"num_hidden_layers": 1}
"""What is the same in every layer is compared in one; the other cases have two."""
CASES = {
    "paper": {},
    "pre-norm": {"norm_position": "pre"},
    "pre-norm with biases, learned positions": {
        "norm_position": "pre", "attention_bias": True, "positions": "learned",
    },
    "no positions, gelu by a sigmoid": {**ONE, "positions": "none", "activation": "gelu_sigmoid"},
    "sines before cosines of the same waves, gelu": {**ONE, "sinusoid_layout": "halves", "activation": "gelu"},
    "biases of logits": {**ONE, "output_bias": True},
    "biases of logits, a table of their own": {
        **ONE, "output_bias": True, "shared_embedding_and_softmax_weights": False,
    },
    "other channels of keys and values": {
        **ONE, "attention_key_channels": 4, "attention_value_channels": 12, "attention_bias": True,
    },
    "all tables separate": {**ONE, "shared_embedding": False, "shared_embedding_and_softmax_weights": False},
    "tables separate, softmax tied": {**ONE, "shared_embedding": False},
    "stacks of different depth, heads and inner width, large epsilon": {
        "num_encoder_layers": 3, "num_decoder_layers": 1, "num_heads": 4, "num_decoder_heads": 2,
        "decoder_filter_size": 10, "norm_epsilon": 0.3,
    },
    "the end of sequence before the first target": {
        **ONE, "sinusoid_layout": "split", "target_start": "id", "attention_bias": True,
    },
    "two positions to each side": {"self_attention_window": 4},
    "a decoder of SSRU": {"decoder_layer": "ssru"},
    "a decoder of SSRU, pre-norm": {"decoder_layer": "ssru", "norm_position": "pre", "positions": "none"},
    "relative positions": {**ONE, "positions": "relative", "max_relative_position": 2},
    "vectors of each head and sinusoids": {**ONE, "relative_keys": 3},
    "rotary positions": {**ONE, "positions": "rotary"},
    "positions of words, sines first": {
        **ONE, "positions": "words", "sinusoid_layout": "split", "norm_position": "pre",
    },
    "the next word": {**ONE, "positions": "words", "read_next_word": True},
    "rms norms": {**ONE, "norm_type": "rms", "norm_epsilon": 0.1},
    "rms norms before, silu": {"norm_type": "rms", "norm_position": "pre", "activation": "silu"},
    "two heads of keys and values": {**ONE, "num_heads": 4, "num_kv_heads": 2, "attention_bias": True},
    "one head of keys and values, rotary positions, other channels": {
        **ONE, "num_kv_heads": 1, "positions": "rotary", "attention_value_channels": 12,
    },
    "two heads of keys and values, relative positions, ReGLU": {
        **ONE, "num_heads": 4, "num_kv_heads": 2, "positions": "relative", "max_relative_position": 2,
        "gated_feed_forward": True,
    },
    "SwiGLU": {**ONE, "gated_feed_forward": True, "activation": "silu", "norm_position": "pre"},
    "rotary positions, six channels of keys in a head, GEGLU": {
        **ONE, "positions": "rotary", "attention_key_channels": 12, "gated_feed_forward": True, "activation": "gelu",
    },
    "relative biases, shared keys, a window": {
        "positions": "relative_bias", "relative_bias_buckets": 6, "relative_bias_max_distance": 5, "num_heads": 4,
        "num_kv_heads": 2, "self_attention_window": 6, "relative_keys": 2,
    },
    "T5": T5,
    "T5, version 1.1": {
        **T5, "activation": "gelu_tanh", "gated_feed_forward": True, "shared_embedding_and_softmax_weights": False,
    },
    "another id before the first target": {
        **ONE, "target_start": "id", "target_start_id": 5, "norm_position": "pre",
    },
    "relative positions, other channels, a window": {
        "positions": "relative", "max_relative_position": 1, "self_attention_window": 6, "attention_value_channels": 12,
    },
}  # fmt: skip
TARGETS = (4, 6, 2)


def assert_same_logits(model, features):
    """Every position that holds data has the reference's logits, whatever else is in the batch."""
    check_same_logits(model, reference_of(model), features, rtol=2e-4, atol=2e-5)


@pytest.mark.parametrize("changes", CASES.values(), ids=CASES.keys())
def test_logits_are_those_of_the_reference(changes):
    assert_same_logits(tiny_transformer(**changes), batch(widths=(9, 8)))


def test_logits_with_different_vocabularies():
    model = tiny_transformer(tokens_spec(inputs=11, targets=17, shared=False), num_hidden_layers=1)
    rng = np.random.default_rng(5)
    features = {"inputs": padded(rows(rng, (5, 3, 7), 11), 9), "targets": padded(rows(rng, TARGETS, 17), 8)}
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
    model = tiny_transformer(max_length=4, positions=positions, num_hidden_layers=1)
    assert_same_logits(model, batch(sources=(40,), targets=(45,)))


@pytest.mark.parametrize(
    ("smoothing", "kind", "output_bias"), [(0.0, "all", True), (0.9, "all", False), (0.1, "others", True)]
)
def test_loss_is_that_of_the_distribution_written_out(smoothing, kind, output_bias):
    """With every number of classes and smoothing in the tests of layers."""
    model = tiny_transformer(
        label_smoothing=smoothing, label_smoothing_kind=kind, output_bias=output_bias, num_hidden_layers=1
    )
    features, plain = batch(widths=(9, 8)), reference_of(model)
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
                "relative positions", "vectors of each head and sinusoids", "rotary positions", "T5", "rms norms",
                "two heads of keys and values",
                "biases of logits",
            )
        ),
    ],
    ids=str,
)  # fmt: skip
def test_gradients_are_the_slopes_of_the_reference(changes):
    """Central differences of the numpy loss, along a direction of each weight."""
    model = tiny_transformer(**{"label_smoothing": 0.1, "activation": "gelu", **changes, **ONE})
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


# === The Transformer of BART ===

BART_SIZES = {
    "hidden_size": 8, "filter_size": 12, "num_hidden_layers": 2, "num_heads": 2, "max_length": 16,
    "layer_prepostprocess_dropout": 0.0, "norm_position": "pre", "attention_bias": True, "target_start": "id",
}  # fmt: skip
BART_CASES = {
    "mBART's": {"embedding_norm": True, "positions": "learned", "activation": "gelu", "output_bias": True},
    "M2M-100's": {"sinusoid_layout": "split", "first_position": 2},
    "norms alone, behind sub-layers": {"embedding_norm": True, "positions": "none", "norm_position": "post"},
}


class BartReference(reference.Transformer):
    """With positions of each side, and norms of embeddings where there are weights of them."""

    first_position = 0

    def encode(self, source):
        self.side = "source"
        return super().encode(source)

    def decode(self, target, memory):
        self.side = "target"
        return super().decode(target, memory)

    def place(self, x, position):
        if self.shape.positions == "learned":
            x = x + self.weights[f"{self.side}_positions/positions/table"][position]
        else:
            x = super().place(x, position + self.first_position)
        norm = f"{self.side}_positions/norm"
        return self.norm(norm, x) if f"{norm}/gamma" in self.weights else x


def bart(spec=None, **changes):
    model = TransformerBart(TransformerBartHParams(**(BART_SIZES | changes)), spec or tokens_spec())
    randomise(model)
    return model


@pytest.mark.parametrize("changes", BART_CASES.values(), ids=BART_CASES.keys())
def test_logits_of_bart_are_those_of_the_reference(changes):
    model = bart(**changes)
    plain = BartReference(weights_of(model), architecture_of(model))
    plain.first_position = model.hparams.first_position
    check_same_logits(model, plain, batch(widths=(9, 8)), rtol=2e-4, atol=2e-5)


def test_each_side_has_positions_and_a_norm_of_its_own():
    names = {name for name in weights_of(bart(**BART_CASES["mBART's"])) if "positions" in name}
    assert names == {
        f"{side}_positions/{part}"
        for side in ("source", "target")
        for part in ("positions/table", "norm/gamma", "norm/beta")
    }
    alone = bart(tokens_spec(inputs=0), **BART_CASES["mBART's"])
    assert not any("source" in name for name in weights_of(alone))
    assert numpy(alone({"targets": batch(widths=(0, 8))["targets"]})).shape[-1] == alone.spec.targets.vocab_size


def test_an_id_that_the_vocabulary_lacks_begins_no_targets():
    with refused("target_start_id=900", "0", "12"):
        tiny_transformer(target_start="id", target_start_id=900)


# === Recorded attention weights are each softmax of independent models ===

FEATURES = batch(sources=(5, 3), targets=(4, 6), widths=(7, 8))


def recorded(model):
    record = {}
    with in_mode(record=record):
        model.body(FEATURES)
    return {path.partition("/")[2]: [numpy(part) for part in parts] for path, parts in record.items()}


def softmaxes_of(reference):
    """Yields number, source, target and the outputs of all softmaxes of a reference model, for each sentence."""
    for b, pair in enumerate(zip(FEATURES["inputs"], FEATURES["targets"], strict=True)):
        source, target = (ids[ids != 0].tolist() for ids in pair)
        with recorded_softmaxes() as taken:
            reference.logits(source, target)
        yield b, source, target, taken


@pytest.mark.parametrize("changes", [{}, {"norm_position": "pre"}, {"self_attention_window": 4}], ids=str)
def test_a_transformer_looks_where_the_reference_does_and_nowhere_else(changes):
    model = tiny_transformer(**changes)
    plain, record = reference_of(model), recorded(model)
    kinds = [("encoder", "self_attention"), ("decoder", "self_attention"), ("decoder", "encdec_attention")]
    assert set(record) == {f"{stack}/layer_{i}/{name}" for stack, name in kinds for i in range(2)}
    for b, source, target, softmaxes in softmaxes_of(plain):
        taken = iter(softmaxes)
        order = [kinds[0]] * 2 + [kinds[1], kinds[2]] * 2  # the encoder's layers, then the decoder's in turn
        for place, (stack, name) in enumerate(order):
            layer = place if stack == "encoder" else (place - 2) // 2
            (found_BHTS,) = record[f"{stack}/layer_{layer}/{name}"]
            is_memory, queries = name == "encdec_attention", source if stack == "encoder" else target
            for t in range(len(queries)):
                for head in range(2):
                    expected, seen = next(taken), np.zeros(found_BHTS.shape[-1])
                    reached = plain.places(
                        t, len(source if is_memory else queries), stack == "decoder" and not is_memory, not is_memory
                    )
                    seen[list(reached)] = expected
                    np.testing.assert_allclose(found_BHTS[b, head, t], seen, rtol=1e-3, atol=1e-6)
        assert next(taken, None) is None


@pytest.mark.parametrize(
    ("name", "changes", "layers"),
    [
        *(
            ("lstm_seq2seq_attention", {"attention_mechanism": mechanism}, ["decoder/attention"])
            for mechanism in ("bahdanau", "luong")
        ),
        ("gnmt", {}, ["decoder/attention"]),
        ("deep_att", {}, ["decoder/attention"]),
        ("lstm_moe", {}, ["decoder/attention"]),
        ("conv_s2s", {}, ["decoder/attention_0", "decoder/attention_1"]),
        ("slice_net", {}, ["mixer/attention", "decoder_0/attention"]),
    ],
    ids=str,
)
def test_attention_of_one_head_is_the_references(name, changes, layers):
    """The layers that attend are given in order."""
    model = tiny(name, **changes)
    record = recorded(model)
    assert list(record) == layers
    for b, source, target, expected in softmaxes_of(reference_of(model)):
        found = np.concatenate(
            [np.concatenate(record[path], axis=2)[b, 0, : len(target)] for path in layers]
        )  # each recurrent step is a separate call
        assert found.shape[1] == 7
        np.testing.assert_allclose(found[:, : len(source)], expected, rtol=2e-3, atol=1e-6)
        assert not found[:, len(source) :].any()
