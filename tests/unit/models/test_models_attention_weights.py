"""Recorded attention weights, compared with each softmax of independent models in numpy.

Legend: B batch, H heads, T queries, S keys.
"""

import numpy as np
import pytest

from t2t.layers.attention_record import recorded_attention
from tests.builders import batch, numpy, tiny_transformer
from tests.reference.transformer import recorded_softmaxes
from tests.unit.models.references import reference_of, tiny

FEATURES = batch(sources=(5, 3), targets=(4, 6), widths=(7, 8))


def recorded(model):
    with recorded_attention() as record:
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
