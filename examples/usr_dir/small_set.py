"""An hparams set in Tensor2Tensor's style: start from a set, change it, return it."""

from t2t import register_hparams
from t2t.hparams.transformer import transformer_tiny


@register_hparams
def my_transformer_small():
    """A Transformer of two narrow layers, for phrases of a few words."""
    hparams = transformer_tiny()
    hparams.hidden_size = 64
    hparams.filter_size = 128
    hparams.num_heads = 2
    hparams.max_length = 32
    hparams.batch_size = 1024
    hparams.learning_rate_schedule = "linear"
    hparams.learning_rate = 0.002
    hparams.learning_rate_warmup_steps = 100
    hparams.train_steps = 800
    return hparams
