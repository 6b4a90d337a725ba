"""Sets of the Transformer with relative positions: Shaw et al. 2018 (arXiv:1803.02155), under Tensor2Tensor's names.

Their values are Tensor2Tensor's: no other positions, distances up to 20, vectors that heads share. In the paper the
base model has distances up to 16 and vectors of its own for each head, the big one distances up to 8.
"""

from t2t.hparams.transformer import TransformerHParams, transformer_base_v3
from t2t.registry import register_hparams


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
