"""Hparams of the Transformer's encoder as a classifier of texts."""

from t2t.hparams.transformer import TransformerHParams, transformer_tiny
from t2t.registry import register_hparams


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
