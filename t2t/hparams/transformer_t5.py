"""Sets of the Transformer as T5: Raffel et al. 2020 (arXiv:1910.10683), section 2.1, in its first version (v1.0).

RMS norms in front, no biases of linear maps, positions by scalars of distances, and the first target after padding's
vector.
"""

from t2t.hparams.transformer import TransformerHParams, transformer_base, transformer_multi30k_tiny
from t2t.registry import register_hparams


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
