"""Sets of the Transformer with other positions, norms and layers: Shaw's, the usual ones of today, T5's and Marian's.

Each difference is an hparam, off by default: see `t2t.hparams.transformer` for its source.
"""

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
    """For ten to a hundred thousand pairs on a laptop: 5,000 small updates, in 16 bits where the processor has them."""
    return transformer_modern_multi30k_tiny().replace(
        precision="auto",
        batch_size=2450,
        effective_batch_size=0,
        learning_rate_schedule="linear",
        learning_rate=0.004,
        learning_rate_warmup_steps=400,
        layer_prepostprocess_dropout=0.25,
        train_steps=5000,
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
