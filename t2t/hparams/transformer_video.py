"""Hparams of the Transformer's encoder as a classifier of clips, such as those of `video_moving_mnist_class`."""

from t2t.hparams.transformer import TransformerHParams, transformer_tiny
from t2t.registry import register_hparams


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
