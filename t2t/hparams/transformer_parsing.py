"""Sets for constituency parsing: the paper's section 6.3, Tensor2Tensor's names, and one for two processor cores.

The paper parses with 4 layers of d 1024 and says no more of the network than that the rest is as in the English-German
base model, except for values chosen on section 22: dropout, learning rate and beam. Tensor2Tensor's sets
are those runs as far as they were published. All decode with beam 21, alpha 0.3 and outputs up to input + 300.
"""

from t2t.hparams.recipes import noam_rate
from t2t.hparams.transformer import TransformerHParams, transformer_base, transformer_big
from t2t.registry import register_hparams

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
