"""Hparams of the Transformer's encoder as a masked language model, which a classifier can start from.

Source of the values, unless a line says otherwise: Devlin et al. 2018 (arXiv:1810.04805), section 3 and appendix A.2.
"""

from t2t.hparams.transformer import TransformerHParams, transformer_base
from t2t.registry import register_hparams


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
