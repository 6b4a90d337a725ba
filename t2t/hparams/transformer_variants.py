"""Sets of the Transformer with other positions, norms and layers: Shaw's, today's, T5's, Marian's; the paper's Table 3.

Each difference is an hparam, off by default: see `t2t.hparams.transformer` for its source.
"""

from typing import Any

from t2t.hparams.transformer import TransformerHParams, transformer_base, transformer_base_v3, transformer_multi30k_tiny
from t2t.registry import register_hparams

# === Relative positions: Shaw et al. 2018 (arXiv:1803.02155), under Tensor2Tensor's names ===
# Their values are Tensor2Tensor's: no other positions, distances up to 20, vectors that heads share. In the paper the
# base model has distances up to 16 and vectors of its own for each head, the big one distances up to 8.


@register_hparams
def transformer_relative() -> TransformerHParams:
    """transformer_base_v3 with relative positions up to 20 instead of sinusoids. Paper (base): BLEU 26.8."""
    return transformer_base_v3().replace(positions="relative", max_relative_position=20)


@register_hparams
def transformer_relative_tiny() -> TransformerHParams:
    """transformer_relative with 2 layers, d 128, d_ff 512, 4 heads."""
    return transformer_relative().replace(num_hidden_layers=2, hidden_size=128, filter_size=512, num_heads=4)


@register_hparams
def transformer_relative_big() -> TransformerHParams:
    """transformer_relative with d 1024, d_ff 4096, 16 heads, dropout 0.3, steps of 2,048. Paper (big): BLEU 29.2."""
    return transformer_relative().replace(
        hidden_size=1024,
        filter_size=4096,
        num_heads=16,
        layer_prepostprocess_dropout=0.3,
        batch_size=2048,
        train_steps=300_000,
        precision="auto",
    )


# === What has become usual since: norms in front, RMS norms, rotary positions, SwiGLU, fewer keys ===
# The inner width is chosen so that a model has the size of the one that it is compared with: gates add half as many
# weights again, shared keys and values save some.


@register_hparams
def transformer_modern() -> TransformerHParams:
    """transformer_base_v3 with RMS norms, rotary positions, SwiGLU and two heads of keys and values."""
    return _modern(transformer_base_v3()).replace(filter_size=1760)


@register_hparams
def transformer_modern_multi30k_tiny() -> TransformerHParams:
    """For Multi30k, as large as transformer_multi30k_tiny, with what transformer_modern has."""
    return _modern(transformer_multi30k_tiny()).replace(filter_size=232)


@register_hparams
def transformer_small_data() -> TransformerHParams:
    """For ten to a hundred thousand pairs on a laptop: 6,000 small updates, in 16 bits where the processor has them.

    With `--subword_sampling=0.1`: dropout is low since the pieces of words vary, too.
    """
    return transformer_modern_multi30k_tiny().replace(
        precision="auto",
        batch_size=2450,
        effective_batch_size=0,
        optimizer="muon",
        learning_rate_schedule="linear",
        learning_rate=0.004,
        learning_rate_warmup_steps=400,
        layer_prepostprocess_dropout=0.15,
        train_steps=6000,
    )


def _modern(hparams: TransformerHParams) -> TransformerHParams:
    return hparams.replace(
        norm_position="pre",
        norm_type="rms",
        positions="rotary",
        gated_feed_forward=True,
        activation="silu",
        num_kv_heads=2,
    )


# === T5: Raffel et al. 2020 (arXiv:1910.10683), section 2.1, in its first version (v1.0) ===
# RMS norms in front, no biases of linear maps, positions by scalars of distances, and the first target after padding's
# vector.


@register_hparams
def t5_small() -> TransformerHParams:
    """T5's small model: 6+6 layers, d 512, d_ff 2048, 8 heads; 2^19 updates of 2^16 tokens (sections 3.1.2 and 3.7)."""
    return _t5(transformer_base()).replace(
        max_length=512,
        attention_dropout=0.1,
        relu_dropout=0.1,
        label_smoothing=0.0,
        optimizer="adafactor",
        learning_rate_schedule="rsqrt_decay",
        learning_rate_warmup_steps=10_000,
        effective_batch_size=65_536,
        train_steps=524_288,
    )


@register_hparams
def t5_multi30k_tiny() -> TransformerHParams:
    """For Multi30k, with T5's network in the sizes of transformer_multi30k_tiny."""
    return _t5(transformer_multi30k_tiny()).replace(attention_bias=False)


def _t5(hparams: TransformerHParams) -> TransformerHParams:
    return hparams.replace(
        norm_position="pre", norm_type="rms", positions="relative_bias", feed_forward_bias=False, target_start="pad"
    )


# === Marian's translators, such as those of OPUS-MT ===
# Source of the network: `MarianMTModel` of transformers and its conversion of Marian's `transformer` models; of the
# recipe: the settings of OPUS-MT-train (github.com/Helsinki-NLP/OPUS-MT-train, lib/config.mk and train.mk).


@register_hparams
def transformer_marian() -> TransformerHParams:
    """transformer_base as Marian has it: swish, biases in attention and on logits, sines before cosines."""
    return transformer_base().replace(
        activation="silu",
        attention_bias=True,
        output_bias=True,
        norm_epsilon=1e-5,
        sinusoid_layout="halves",
        max_length=512,
        clip_grad_norm=5.0,
        learning_rate_schedule="inverse_sqrt",
        learning_rate=0.0003,
        learning_rate_warmup_steps=16000,
        beam_size=6,
        length_penalty="power",
        alpha=1.0,
    )


# === Table 3 of the paper: variations of transformer_base ===
# A set is named after what it changes, as Tensor2Tensor names it, and changes nothing else. The paper trained each on
# English-German, 100,000 updates, and scored newstest2013 (`dev`) without averaging checkpoints; its perplexity (per
# piece) and BLEU are in the summaries, base: 4.92 and 25.8. Row `big` is `transformer_big`. Tensor2Tensor has sets of
# these names too, but they start from its latest `transformer_base`, which is `transformer_base_v3` here. Where they
# differ from the table, the table is followed.

_TABLE_3: tuple[tuple[str, str, str, float, float, dict[str, Any]], ...] = (
    # (A) Heads, at the same cost: d_k = d_v = 512 / h
    ("transformer_h1", "A", "1 head, d_k = d_v = 512", 5.29, 24.9, {"num_heads": 1}),
    ("transformer_h4", "A", "4 heads, d_k = d_v = 128", 5.00, 25.5, {"num_heads": 4}),
    ("transformer_h16", "A", "16 heads, d_k = d_v = 32", 4.91, 25.8, {"num_heads": 16}),
    ("transformer_h32", "A", "32 heads, d_k = d_v = 16", 5.01, 25.4, {"num_heads": 32}),
    # (B) Narrower keys; values keep d_v = 64; Tensor2Tensor counts the channels of all heads
    ("transformer_k16", "B", "d_k = 16, 128 channels for the keys of all heads", 5.16, 25.1,
     {"attention_key_channels": 8 * 16}),
    ("transformer_k32", "B", "d_k = 32, 256 channels for the keys of all heads", 5.01, 25.4,
     {"attention_key_channels": 8 * 32}),
    # (C) Depth and width
    ("transformer_l2", "C", "2 layers in each stack", 6.11, 23.7, {"num_hidden_layers": 2}),
    ("transformer_l4", "C", "4 layers in each stack", 5.19, 25.3, {"num_hidden_layers": 4}),
    ("transformer_l8", "C", "8 layers in each stack", 4.88, 25.5, {"num_hidden_layers": 8}),
    ("transformer_hs256", "C", "d_model 256, d_k = d_v = 32", 5.75, 24.5, {"hidden_size": 256}),
    ("transformer_hs1024", "C", "d_model 1024, d_k = d_v = 128", 4.66, 26.0, {"hidden_size": 1024}),
    ("transformer_ff1024", "C", "d_ff 1024", 5.12, 25.4, {"filter_size": 1024}),
    ("transformer_ff4096", "C", "d_ff 4096", 4.75, 26.2, {"filter_size": 4096}),
    # (D) Dropout on sub-layers and embeddings, label smoothing
    ("transformer_dr0", "D", "no dropout", 5.77, 24.6, {"layer_prepostprocess_dropout": 0.0}),
    ("transformer_dr2", "D", "dropout 0.2", 4.95, 25.5, {"layer_prepostprocess_dropout": 0.2}),
    ("transformer_ls0", "D", "no label smoothing", 4.67, 25.3, {"label_smoothing": 0.0}),
    ("transformer_ls2", "D", "label smoothing 0.2", 5.47, 25.7, {"label_smoothing": 0.2}),
    # (E) Positions
    # Tensor2Tensor has no set for this row. One table of max_length vectors serves source and target.
    ("transformer_learned_positions", "E", "learned positions instead of sinusoids", 4.92, 25.7,
     {"positions": "learned"}),
)  # fmt: skip
"""Name, row, what is changed, the paper's perplexity and BLEU, values."""


def _register_row(name: str, row: str, changed: str, perplexity: float, bleu: float, values: dict[str, Any]) -> None:
    def build() -> TransformerHParams:
        return transformer_base().replace(**values)

    build.__doc__ = f"Table 3 ({row}): {changed}. Paper: perplexity {perplexity:.2f}, BLEU {bleu}."
    register_hparams(name)(build)


for _row in _TABLE_3:
    _register_row(*_row)
