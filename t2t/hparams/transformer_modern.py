"""Sets of the Transformer with the changes that have become usual since the paper.

Pre-norm with RMS norms, rotary positions, SwiGLU, and two key and value heads. Each is an hparam, off by default: see
`t2t.hparams.transformer` for its source. The inner width is chosen so that a model has the size of the one that it is
compared with: gates add half as many weights again, shared keys and values save some.
"""

from t2t.hparams.transformer import TransformerHParams, transformer_base_v3, transformer_multi30k_tiny
from t2t.registry import register_hparams


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
