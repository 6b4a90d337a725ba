"""Sets of the Transformer for tasks besides translation: language models, images, clips, speech, classes, parsing."""

from t2t.hparams.base import noam_rate
from t2t.hparams.transformer import (
    TransformerHParams,
    transformer_base,
    transformer_base_v3,
    transformer_big,
    transformer_tiny,
)
from t2t.registry import register_hparams

# === Language models: norms in front, where depth trains without warm-up troubles ===


@register_hparams
def transformer_lm_base() -> TransformerHParams:
    """transformer_base as a language model: 6 layers, d 512, norms in front."""
    return _language_model(transformer_base())


@register_hparams
def transformer_lm_tiny() -> TransformerHParams:
    """transformer_tiny as a language model: 2 layers, d 128, norms in front."""
    return _language_model(transformer_tiny())


def _language_model(hparams: TransformerHParams) -> TransformerHParams:
    return hparams.replace(norm_position="pre", label_smoothing=0.0, max_length=512)


# === Images, written as long sequences of intensities; for `transformer_lm` too ===


@register_hparams
def transformer_image_base() -> TransformerHParams:
    """transformer_lm_base for images of 32 x 32 in colour: sequences of up to 3,200 ids, sampled."""
    return _of_length(transformer_lm_base(), 3200)


@register_hparams
def transformer_image_tiny() -> TransformerHParams:
    """transformer_lm_tiny for images of 28 x 28: sequences of up to 800 ids, sampled."""
    return _of_length(transformer_lm_tiny(), 800)


def _of_length(hparams: TransformerHParams, length: int) -> TransformerHParams:
    # A search would write the one likeliest image: blank paper.
    return hparams.replace(max_length=length, extra_length=length, batch_size=2 * length, decode_method="sample")


# === Masked language models, which a classifier can start from ===
# Source of the values, unless a line says otherwise: Devlin et al. 2018 (arXiv:1810.04805), section 3 and appendix A.2.


@register_hparams
def transformer_mlm_base() -> TransformerHParams:
    """BERT's base model: 12 layers, d 768, d_ff 3072, 12 heads, GELU, learned positions; 1,000,000 updates."""
    return transformer_base().replace(
        hidden_size=768,
        num_hidden_layers=12,
        filter_size=3072,
        num_heads=12,
        activation="gelu",
        attention_bias=True,
        positions="learned",
        max_length=512,
        attention_dropout=0.1,
        label_smoothing=0.0,
        effective_batch_size=131_072,  # 256 sequences of 512 tokens
        optimizer="adamw",
        optimizer_adam_beta2=0.999,
        optimizer_adam_epsilon=1e-6,
        weight_decay=0.01,
        learning_rate_schedule="linear",
        learning_rate=1e-4,
        learning_rate_warmup_steps=10_000,
        train_steps=1_000_000,
    )


@register_hparams
def transformer_mlm_tiny() -> TransformerHParams:
    """For two processor cores: 2 layers, d 128, d_ff 512, 4 heads; pre-norm, rotary positions, small updates."""
    # With learned positions, so small a model hardly learns in as many updates.
    return transformer_mlm_base().replace(
        hidden_size=128,
        num_hidden_layers=2,
        filter_size=512,
        num_heads=4,
        norm_position="pre",
        positions="rotary",
        max_length=256,
        batch_size=2048,
        effective_batch_size=0,
        optimizer_adam_beta2=0.98,
        clip_grad_norm=1.0,
        learning_rate=0.003,
        learning_rate_warmup_steps=300,
        train_steps=10_000,
    )


# === Classes of texts ===


@register_hparams
def transformer_encoder_tiny() -> TransformerHParams:
    """Learns to tell the classes of some thousand sentences in a minute on two processor cores: one layer, d 128."""
    return transformer_tiny().replace(
        num_hidden_layers=1,
        layer_prepostprocess_dropout=0.5,  # so few sentences are soon known by heart
        max_length=256,
        batch_size=2000,
        learning_rate_schedule="linear",
        learning_rate=0.002,
        learning_rate_warmup_steps=100,
        train_steps=600,
        ema_decay=0.99,
    )


# === Classes of clips, such as those of `video_moving_mnist_class` ===


@register_hparams
def transformer_video_tiny() -> TransformerHParams:
    """Learns classes of clips of some ten small frames on two processor cores, with transformer_encoder: d 64."""
    return transformer_tiny().replace(
        hidden_size=64,
        filter_size=256,
        norm_position="pre",
        positions="none",  # the modality adds its own
        label_smoothing=0.0,
        batch_size=320,  # frames
        learning_rate_schedule="linear",
        learning_rate=0.002,
        learning_rate_warmup_steps=200,
        optimizer_adam_epsilon=1e-8,
        ema_decay=0.99,
        train_steps=2000,
    )


# === Speech that is written down, such as that of `librispeech` ===
# Convolutions make a vector of 40 ms of sound, see `t2t.layers.modalities.audio`; masks are those of Park et al. 2019,
# see `t2t.layers.modalities.audio`.


@register_hparams
def transformer_librispeech() -> TransformerHParams:
    """For LibriSpeech and Common Voice: 6+4 layers, d 384, 2 heads, dropout 0.2, SpecAugment's LibriSpeech double.

    The sizes of Tensor2Tensor's set transformer_librispeech_v2, whose feed-forward layers are convolutions and whose
    sound has no masks.
    """
    return transformer_base_v3().replace(
        num_encoder_layers=6,
        num_decoder_layers=4,
        hidden_size=384,
        filter_size=1536,
        num_heads=2,
        layer_prepostprocess_dropout=0.2,
        relu_dropout=0.2,
        learning_rate=noam_rate(0.15),
        input_modality="spec_augment_audio",
        max_length=512,  # bytes of a transcript, as the problems keep them
        batch_size=20_000,  # 200 s of sound, about the 16 sentences of Tensor2Tensor's set
    )


@register_hparams
def transformer_librispeech_v1() -> TransformerHParams:
    """transformer_librispeech with 5+3 layers, d 256, d_ff 1024, 4 heads, dropout 0.1."""
    return transformer_librispeech().replace(
        num_encoder_layers=5,
        num_decoder_layers=3,
        hidden_size=256,
        filter_size=1024,
        num_heads=4,
        layer_prepostprocess_dropout=0.1,
        relu_dropout=0.1,
    )


@register_hparams
def transformer_speech_tiny() -> TransformerHParams:
    """Writes down spoken words on two processor cores: transformer_tiny with norms in front and mild masks."""
    return transformer_tiny().replace(
        norm_position="pre",
        input_modality="spec_augment_mild_audio",
        batch_size=1500,
        learning_rate_schedule="linear",
        learning_rate=0.002,
        learning_rate_warmup_steps=200,
        optimizer_adam_epsilon=1e-8,
        ema_decay=0.99,
        train_steps=1500,
        beam_size=1,
    )


# === Constituency parsing: the paper's section 6.3, Tensor2Tensor's names, one for two processor cores ===
# The paper parses with 4 layers of d 1024 and says no more of the network than that the rest is as in the
# English-German base model, except for values chosen on section 22: dropout, learning rate and beam. Tensor2Tensor's
# sets are those runs as far as they were published. All decode with beam 21, alpha 0.3 and outputs up to input + 300.


_DECODING = {"beam_size": 21, "alpha": 0.3, "extra_length": 300}  # section 6.3

_APART = {"shared_embedding": False, "shared_embedding_and_softmax_weights": False}
"""Separate tables, since inputs are words and targets are labels."""


@register_hparams
def transformer_parsing_paper() -> TransformerHParams:
    """Section 6.3: 4 layers, d 1024; the rest as transformer_base."""
    # 16 heads keep the paper's 64 channels a head; d_ff 4 d is the ratio of all its models.
    return transformer_base().replace(
        num_hidden_layers=4, hidden_size=1024, filter_size=4096, num_heads=16, max_length=512, **_APART, **_DECODING
    )


@register_hparams
def transformer_parsing_base() -> TransformerHParams:
    """Wall Street Journal alone: Tensor2Tensor's 6 layers, d 1024, d_ff 2048, dropout 0.2, 16,000 warm-up steps."""
    # The values of June 2017; later versions have other rates, which their schedules do not read.
    return transformer_base().replace(
        hidden_size=1024,
        attention_dropout=0.2,
        layer_prepostprocess_dropout=0.2,
        max_length=512,
        learning_rate=noam_rate(0.5),
        learning_rate_warmup_steps=16_000,
        **_APART,
        **_DECODING,
    )


@register_hparams
def transformer_parsing_big() -> TransformerHParams:
    """For wsj_parsing_semi: the big model, dropout 0.1, steps of 2,048 tokens, Tensor2Tensor's learning rate."""
    return transformer_big().replace(
        layer_prepostprocess_dropout=0.1,
        max_length=512,
        batch_size=2048,
        learning_rate=noam_rate(0.5),
        **_APART,
        **_DECODING,
    )


@register_hparams
def transformer_parsing_tiny() -> TransformerHParams:
    """For two processor cores and a treebank of 20,000 trees: 3+3 layers, d 192, d_ff 352, 4 heads, dropout 0.2.

    Its positions count words, and its decoder reads the next one. It has norms in front, RMS norms, SwiGLU, and two
    heads of keys and values. With so few trees, it overfits without dropout of attention and of whole tokens.
    """
    return transformer_base().replace(
        num_hidden_layers=3,
        hidden_size=192,
        filter_size=352,
        num_heads=4,
        num_kv_heads=2,
        attention_bias=True,
        positions="words",
        read_next_word=True,
        norm_position="pre",
        norm_type="rms",
        gated_feed_forward=True,
        activation="silu",
        layer_prepostprocess_dropout=0.2,
        attention_dropout=0.1,
        symbol_dropout=0.1,
        max_length=256,
        optimizer_adam_epsilon=1e-8,
        learning_rate_schedule="linear",
        learning_rate=0.0015,
        learning_rate_warmup_steps=500,
        batch_size=4096,
        train_steps=12_000,
        ema_decay=0.99,
        beam_size=4,
        alpha=0.3,
        extra_length=300,
        **_APART,
    )
