"""Recorded attention weights, compared with each softmax of independent models in numpy.

Legend: B batch, H heads, T queries, S keys.
"""

import numpy as np
import pytest

from t2t.hparams.conv_s2s import ConvS2sHParams
from t2t.hparams.deep_att import DeepAttHParams
from t2t.hparams.gnmt import GnmtHParams
from t2t.hparams.lstm import LstmAttentionHParams
from t2t.hparams.lstm_moe import LstmMoeHParams
from t2t.hparams.slice_net import SliceNetHParams
from t2t.layers.attention_record import recorded_attention
from t2t.models.conv_s2s import ConvS2s
from t2t.models.deep_att import DeepAtt
from t2t.models.gnmt import Gnmt
from t2t.models.lstm import LstmSeq2seqAttention
from t2t.models.lstm_moe import LstmMoe
from t2t.models.slice_net import SliceNet
from t2t.models.transformer import Transformer
from tests.builders import batch, numpy, randomise, tiny_hparams, tokens_spec, weights_of
from tests.reference import conv_s2s, deep_att, gnmt, lstm, lstm_moe, slice_net, transformer

SOURCES, TARGETS = (5, 3), (4, 6)


def recorded(model, features):
    with recorded_attention() as record:
        model.body(features)
    return {path.partition("/")[2]: [numpy(part) for part in parts] for path, parts in record.items()}


def softmaxes_of(monkeypatch, module, run):
    """Returns the outputs of all softmaxes of a reference model, in order."""
    taken, softmax = [], module.softmax
    monkeypatch.setattr(module, "softmax", lambda scores: taken.append(softmax(scores)) or taken[-1])
    run()
    monkeypatch.undo()
    return taken


def unpadded(features):
    for source, target in zip(features["inputs"], features["targets"], strict=True):
        yield source[source != 0].tolist(), target[target != 0].tolist()


@pytest.mark.parametrize("changes", [{}, {"norm_position": "pre"}, {"self_attention_window": 4}], ids=str)
def test_a_transformer_looks_where_the_reference_does_and_nowhere_else(monkeypatch, changes):
    model = randomise(Transformer(tiny_hparams(**changes), tokens_spec()))
    window = changes.get("self_attention_window", 0)
    plain = transformer.Transformer(
        weights_of(model),
        transformer.Architecture(2, 2, 2, norm=changes.get("norm_position", "post"), window=window),
    )
    features = batch(sources=SOURCES, targets=TARGETS, widths=(7, 8))
    record = recorded(model, features)
    kinds = [("encoder", "self_attention"), ("decoder", "self_attention"), ("decoder", "encdec_attention")]
    assert set(record) == {f"{stack}/layer_{i}/{name}" for stack, name in kinds for i in range(2)}
    for b, (source, target) in enumerate(unpadded(features)):
        taken = iter(softmaxes_of(monkeypatch, transformer, lambda s=source, t=target: plain.logits(s, t)))
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


SINGLE_HEADED = {
    "bahdanau": (
        lambda: LstmSeq2seqAttention(_lstm("bahdanau"), tokens_spec()),
        lambda w: lstm.Lstm(w, 2, "reversed", "bahdanau", True), lstm, ["decoder/attention"],
    ),
    "luong": (
        lambda: LstmSeq2seqAttention(_lstm("luong"), tokens_spec()),
        lambda w: lstm.Lstm(w, 2, "reversed", "luong", True), lstm, ["decoder/attention"],
    ),
    "gnmt": (
        lambda: Gnmt(GnmtHParams(hidden_size=8, num_hidden_layers=3, dropout=0.0), tokens_spec()),
        lambda w: gnmt.Gnmt(w, 3), lstm, ["decoder/attention"],
    ),
    "deep_att": (
        lambda: DeepAtt(_deep_att(), tokens_spec()),
        lambda w: deep_att.DeepAtt(w, 2, 2), lstm, ["decoder/attention"],
    ),
    "lstm_moe": (
        lambda: LstmMoe(_lstm_moe(), tokens_spec()),
        lambda w: lstm_moe.LstmMoe(w, 3, 2, 0), lstm_moe, ["decoder/attention"],
    ),
    "conv_s2s": (
        lambda: ConvS2s(ConvS2sHParams(hidden_size=8, num_hidden_layers=2, max_length=16, dropout=0.0), tokens_spec()),
        lambda w: conv_s2s.ConvS2s(w, 2, True), conv_s2s, ["decoder/attention_0", "decoder/attention_1"],
    ),
    "slice_net": (
        lambda: SliceNet(_slice_net(), tokens_spec()),
        lambda w: slice_net.SliceNet(w, 1, 1, ((3, 1), (3, 2), (5, 1), (3, 4)), "separable", (1,) * 4), slice_net,
        ["mixer/attention", "decoder_0/attention"],
    ),
}  # fmt: skip
"""Model, reference, its module, and the layers that attend, in order."""


def _lstm(mechanism):
    return LstmAttentionHParams(
        attention_mechanism=mechanism, hidden_size=8, num_hidden_layers=2, dropout=0.0, encoder_direction="reversed"
    )


def _deep_att():
    return DeepAttHParams(hidden_size=8, num_hidden_layers=2, num_decoder_layers=2, dropout=0.0)


def _lstm_moe():
    return LstmMoeHParams(hidden_size=8, num_hidden_layers=3, filter_size=12, num_experts=4, dropout=0.0)


def _slice_net():
    sizes = {"kernel_sizes": (3, 3, 5, 3), "dilations": (1, 2, 1, 4)}
    return SliceNetHParams(hidden_size=12, num_hidden_layers=1, num_decoder_layers=1, dropout=0.0, **sizes)


@pytest.mark.parametrize("name", SINGLE_HEADED)
def test_attention_of_one_head_is_the_references(monkeypatch, name):
    build, build_reference, module, layers = SINGLE_HEADED[name]
    model = randomise(build())
    plain = build_reference(weights_of(model))
    features = batch(sources=SOURCES, targets=TARGETS, widths=(7, 8))
    record = recorded(model, features)
    assert list(record) == layers
    for b, (source, target) in enumerate(unpadded(features)):
        expected = softmaxes_of(monkeypatch, module, lambda s=source, t=target: plain.logits(s, t))
        found = np.concatenate(
            [np.concatenate(record[path], axis=2)[b, 0, : len(target)] for path in layers]
        )  # each recurrent step is a separate call
        assert found.shape[1] == 7
        np.testing.assert_allclose(found[:, : len(source)], expected, rtol=2e-3, atol=1e-6)
        assert not found[:, len(source) :].any()
