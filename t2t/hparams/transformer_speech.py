"""Hparams of the Transformer that writes down speech; problems whose inputs are sound, such as `librispeech`.

Convolutions make a vector of 40 ms of sound, see `t2t.layers.modalities.audio`; masks are those of Park et al. 2019,
see `t2t.layers.modalities.audio`.
"""

from t2t.hparams.recipes import noam_rate
from t2t.hparams.transformer import TransformerHParams, transformer_base_v3, transformer_tiny
from t2t.registry import register_hparams


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
