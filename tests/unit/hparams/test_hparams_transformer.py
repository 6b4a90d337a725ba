"""Values of the named sets against their sources."""

import math

import pytest

from t2t.hparams.transformer import BLOCKWISE_LENGTH
from t2t.layers.attention import BLOCKWISE_FROM
from t2t.runs.names import get_hparams
from t2t.training.schedules import learning_rate


def values(name, *fields):
    hparams = get_hparams(name)
    return tuple(getattr(hparams, field) for field in fields)


SIZES = ("num_hidden_layers", "hidden_size", "filter_size", "num_heads", "layer_prepostprocess_dropout", "train_steps")


# Attention Is All You Need
BASE = {
    "N": 6, "d_model": 512, "d_ff": 2048, "h": 8, "d_k": 64, "d_v": 64, "P_drop": 0.1, "e_ls": 0.1, "steps": 100_000,
    "positions": "sinusoidal",
}  # fmt: skip
TABLE_3 = {
    "transformer_base": {},
    "transformer_h1": {"h": 1, "d_k": 512, "d_v": 512}, "transformer_h4": {"h": 4, "d_k": 128, "d_v": 128},
    "transformer_h16": {"h": 16, "d_k": 32, "d_v": 32}, "transformer_h32": {"h": 32, "d_k": 16, "d_v": 16},
    "transformer_k16": {"d_k": 16}, "transformer_k32": {"d_k": 32},
    "transformer_l2": {"N": 2}, "transformer_l4": {"N": 4}, "transformer_l8": {"N": 8},
    "transformer_hs256": {"d_model": 256, "d_k": 32, "d_v": 32},
    "transformer_hs1024": {"d_model": 1024, "d_k": 128, "d_v": 128},
    "transformer_ff1024": {"d_ff": 1024}, "transformer_ff4096": {"d_ff": 4096},
    "transformer_dr0": {"P_drop": 0.0}, "transformer_dr2": {"P_drop": 0.2},
    "transformer_ls0": {"e_ls": 0.0}, "transformer_ls2": {"e_ls": 0.2},
    "transformer_learned_positions": {"positions": "learned"},
    "transformer_big": {"d_model": 1024, "d_ff": 4096, "h": 16, "P_drop": 0.3, "steps": 300_000},
}  # fmt: skip
"""The printed cells of the rows of Table 3 that differ from the base; empty cells have the base's value."""
OTHERS = {
    "transformer_base_single_gpu": {},
    "transformer_big_single_gpu": TABLE_3["transformer_big"] | {"P_drop": 0.1},
    "transformer_big_enfr": TABLE_3["transformer_big"] | {"P_drop": 0.1},  # section 6.1
}


@pytest.mark.parametrize("name", TABLE_3 | OTHERS)
def test_rows_of_table_3(name):
    hparams = get_hparams(name)
    row = {
        "N": hparams.num_hidden_layers, "d_model": hparams.hidden_size, "d_ff": hparams.filter_size,
        "h": hparams.num_heads, "d_k": hparams.key_channels / hparams.num_heads,
        "d_v": hparams.value_channels / hparams.num_heads, "P_drop": hparams.layer_prepostprocess_dropout,
        "e_ls": hparams.label_smoothing, "steps": hparams.train_steps, "positions": hparams.positions,
    }  # fmt: skip
    assert row == BASE | (TABLE_3 | OTHERS)[name]


@pytest.mark.parametrize("name", TABLE_3)
def test_a_row_of_table_3_changes_nothing_else(name):
    """One field for each printed column; d_k and d_v printed together follow from the other."""
    columns = {
        "num_hidden_layers", "hidden_size", "filter_size", "num_heads", "attention_key_channels", "train_steps",
        "layer_prepostprocess_dropout", "label_smoothing", "positions",
    }  # fmt: skip
    changed = set(get_hparams(name).difference(get_hparams("transformer_base"))) - {"precision"}  # see numerics.md
    assert changed <= columns
    following = {"d_k", "d_v"} if "d_v" in TABLE_3[name] else set()
    assert len(changed) == len(TABLE_3[name].keys() - following)


def test_other_names_of_rows():
    """Tensor2Tensor counts the channels of all heads, and calls the paper's base the first version."""
    for name, other in (("k128", "k16"), ("k256", "k32"), ("base_v1", "base")):
        assert get_hparams(f"transformer_{name}") == get_hparams(f"transformer_{other}")


def test_later_versions_of_tensor2tensors_base():
    """Versions 1.2.9 and 1.5 on; the learning rates by the formulas of either, in full."""
    base, v2, v3 = (get_hparams(f"transformer_base{version}") for version in ("", "_v2", "_v3"))
    assert {name: new for name, (_, new) in v2.difference(base).items()} == {
        "norm_position": "pre", "attention_dropout": 0.1, "relu_dropout": 0.1, "learning_rate": 2.0,
        "learning_rate_warmup_steps": 8000,
    }  # fmt: skip
    assert v3.difference(v2) == {"optimizer_adam_beta2": (0.98, 0.997)}
    for step in (1, 100, 8000, 100_000):
        legacy = 0.2 * 5000 * 512**-0.5 * min(step * 8000**-1.5, step**-0.5) * 0.002
        composed = 2.0 * min(1.0, step / 8000) / math.sqrt(max(step, 8000)) / math.sqrt(512)
        assert legacy == pytest.approx(composed, rel=1e-12)
        for hparams in (v2, v3):
            rate = learning_rate(hparams, step)
            assert rate == pytest.approx(composed, rel=1e-6)


@pytest.mark.parametrize("name", ["transformer_base", "transformer_big", "transformer_big_enfr"])
def test_what_else_the_paper_fixes(name):
    """Sections 3.1 (post-norm), 3.2 (no biases), 3.4 (one table), 3.5 (sinusoids), 5.3 (Adam, 4000), 5.4 (e = 0.1)."""
    hparams = get_hparams(name)
    assert hparams.norm_position == "post"
    assert not hparams.attention_bias
    assert hparams.shared_embedding
    assert hparams.shared_embedding_and_softmax_weights
    assert hparams.positions == "sinusoidal"
    adam = ("optimizer", "optimizer_adam_beta1", "optimizer_adam_beta2", "optimizer_adam_epsilon")
    assert values(name, *adam) == ("adam", 0.9, 0.98, 1e-9)
    schedule = ("learning_rate_schedule", "learning_rate", "learning_rate_warmup_steps")
    assert values(name, *schedule) == ("noam", 1.0, 4000)
    assert hparams.label_smoothing == 0.1
    assert (hparams.attention_dropout, hparams.relu_dropout) == (0.0, 0.0)
    assert (hparams.beam_size, hparams.alpha, hparams.extra_length) == (4, 0.6, 50)  # section 6.1
    # Section 5.1: about 25,000 source and 25,000 target tokens, also on one device.
    assert {get_hparams(f"transformer_{size}_single_gpu").effective_batch_size for size in ("base", "big")} == {25_000}


def test_multi30k_tiny_and_small_sets():
    """Wu et al. 2021, section 4, as the set names them."""
    assert values("transformer_multi30k_tiny", *SIZES[:-1]) == (4, 128, 256, 4, 0.3)
    hparams = get_hparams("transformer_multi30k_tiny")
    assert hparams.attention_bias
    adam = ("optimizer_adam_beta1", "optimizer_adam_beta2", "optimizer_adam_epsilon")
    assert values("transformer_multi30k_tiny", *adam) == (0.9, 0.98, 1e-8)
    schedule = ("learning_rate_schedule", "learning_rate", "learning_rate_warmup_steps")
    assert values("transformer_multi30k_tiny", *schedule) == ("inverse_sqrt", 0.005, 2000)
    assert values("transformer_small", *SIZES[:4]) == (2, 256, 1024, 4)
    assert values("transformer_tiny", *SIZES[:4]) == (2, 128, 512, 4)


def test_relative_sets_are_tensor2tensors():
    """Of its version 1.15: its base set, which is v3 here, with `pos=None` and distances up to 20."""
    relative = get_hparams("transformer_relative")
    changed = relative.difference(get_hparams("transformer_base_v3"))
    assert changed == {"positions": ("sinusoidal", "relative"), "max_relative_position": (16, 20)}
    assert values("transformer_relative_tiny", *SIZES[:4]) == (2, 128, 512, 4)
    assert values("transformer_relative_big", *SIZES) == (6, 1024, 4096, 16, 0.3, 300_000)
    assert values("transformer_relative_big", "positions", "max_relative_position") == ("relative", 20)
    assert BLOCKWISE_LENGTH**2 == BLOCKWISE_FROM, "they are refused where attention goes by blocks"


def test_t5_small_has_the_published_sizes():
    """Raffel et al. 2020, sections 2.1, 3.1.2 and 3.7: "small", 2^19 updates of 2^16 tokens, AdaFactor."""
    hparams = get_hparams("t5_small")
    assert values("t5_small", *SIZES) == (6, 512, 2048, 8, 0.1, 2**19)
    assert (hparams.key_channels, hparams.value_channels) == (8 * 64, 8 * 64)
    assert (hparams.relative_bias_buckets, hparams.relative_bias_max_distance) == (32, 128)
    assert (hparams.attention_bias, hparams.feed_forward_bias, hparams.label_smoothing) == (False, False, 0.0)
    assert (hparams.effective_batch_size, hparams.max_length, hparams.optimizer) == (2**16, 512, "adafactor")
    rates = [learning_rate(hparams, step) for step in (1, 10_000, 40_000)]
    assert rates == pytest.approx([0.01, 0.01, 0.005])
    assert (hparams.beam_size, hparams.alpha) == (4, 0.6)
    assert values("t5_multi30k_tiny", *SIZES[:5]) == values("transformer_multi30k_tiny", *SIZES[:5])


@pytest.mark.parametrize(("name", "base"), [
    ("transformer_modern", "transformer_base_v3"), ("transformer_modern_multi30k_tiny", "transformer_multi30k_tiny"),
])  # fmt: skip
def test_modern_sets_have_every_variant_and_nothing_else(name, base):
    modern = get_hparams(name)
    changed = {
        "norm_position": "pre", "norm_type": "rms", "positions": "rotary", "gated_feed_forward": True,
        "activation": "silu", "num_kv_heads": 2,
    }  # fmt: skip
    assert get_hparams(base).replace(filter_size=modern.filter_size, **changed) == modern
