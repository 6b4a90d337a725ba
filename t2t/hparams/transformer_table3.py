"""The rows of Table 3 of Vaswani et al., *Attention Is All You Need* (2017): variations of the base model.

Row `base` is `transformer_base`, row `big` is `transformer_big`. A set is named after what it changes, as Tensor2Tensor
names it, and changes nothing else. The paper trained each on English-German, 100,000 updates, and scored newstest2013
(`dev`) without averaging checkpoints; its perplexity (per piece) and BLEU are in the summaries, base: 4.92 and 25.8.

Tensor2Tensor has sets of these names too, but they start from its latest `transformer_base`, which is
`transformer_base_v3` here. Where they differ from the table, the table is followed.
"""

from t2t.hparams.transformer import TransformerHParams, transformer_base
from t2t.registry import register_hparams

# === (A) Heads, at the same cost: d_k = d_v = 512 / h ===


@register_hparams
def transformer_h1() -> TransformerHParams:
    """Table 3 (A): 1 head, d_k = d_v = 512. Paper: perplexity 5.29, BLEU 24.9."""
    return transformer_base().replace(num_heads=1)


@register_hparams
def transformer_h4() -> TransformerHParams:
    """Table 3 (A): 4 heads, d_k = d_v = 128. Paper: perplexity 5.00, BLEU 25.5."""
    return transformer_base().replace(num_heads=4)


@register_hparams
def transformer_h16() -> TransformerHParams:
    """Table 3 (A): 16 heads, d_k = d_v = 32. Paper: perplexity 4.91, BLEU 25.8."""
    return transformer_base().replace(num_heads=16)


@register_hparams
def transformer_h32() -> TransformerHParams:
    """Table 3 (A): 32 heads, d_k = d_v = 16. Paper: perplexity 5.01, BLEU 25.4."""
    return transformer_base().replace(num_heads=32)


# === (B) Narrower keys; values keep d_v = 64; Tensor2Tensor counts the channels of all heads ===


@register_hparams
def transformer_k16() -> TransformerHParams:
    """Table 3 (B): d_k = 16, 128 channels for the keys of all heads. Paper: perplexity 5.16, BLEU 25.1."""
    return transformer_base().replace(attention_key_channels=8 * 16)


@register_hparams
def transformer_k32() -> TransformerHParams:
    """Table 3 (B): d_k = 32, 256 channels for the keys of all heads. Paper: perplexity 5.01, BLEU 25.4."""
    return transformer_base().replace(attention_key_channels=8 * 32)


# === (C) Depth and width ===


@register_hparams
def transformer_l2() -> TransformerHParams:
    """Table 3 (C): 2 layers in each stack. Paper: perplexity 6.11, BLEU 23.7."""
    return transformer_base().replace(num_hidden_layers=2)


@register_hparams
def transformer_l4() -> TransformerHParams:
    """Table 3 (C): 4 layers in each stack. Paper: perplexity 5.19, BLEU 25.3."""
    return transformer_base().replace(num_hidden_layers=4)


@register_hparams
def transformer_l8() -> TransformerHParams:
    """Table 3 (C): 8 layers in each stack. Paper: perplexity 4.88, BLEU 25.5."""
    return transformer_base().replace(num_hidden_layers=8)


@register_hparams
def transformer_hs256() -> TransformerHParams:
    """Table 3 (C): d_model 256, d_k = d_v = 32. Paper: perplexity 5.75, BLEU 24.5."""
    return transformer_base().replace(hidden_size=256)


@register_hparams
def transformer_hs1024() -> TransformerHParams:
    """Table 3 (C): d_model 1024, d_k = d_v = 128. Paper: perplexity 4.66, BLEU 26.0."""
    return transformer_base().replace(hidden_size=1024)


@register_hparams
def transformer_ff1024() -> TransformerHParams:
    """Table 3 (C): d_ff 1024. Paper: perplexity 5.12, BLEU 25.4."""
    return transformer_base().replace(filter_size=1024)


@register_hparams
def transformer_ff4096() -> TransformerHParams:
    """Table 3 (C): d_ff 4096. Paper: perplexity 4.75, BLEU 26.2."""
    return transformer_base().replace(filter_size=4096)


# === (D) Dropout on sub-layers and embeddings, label smoothing ===


@register_hparams
def transformer_dr0() -> TransformerHParams:
    """Table 3 (D): no dropout. Paper: perplexity 5.77, BLEU 24.6."""
    return transformer_base().replace(layer_prepostprocess_dropout=0.0)


@register_hparams
def transformer_dr2() -> TransformerHParams:
    """Table 3 (D): dropout 0.2. Paper: perplexity 4.95, BLEU 25.5."""
    return transformer_base().replace(layer_prepostprocess_dropout=0.2)


@register_hparams
def transformer_ls0() -> TransformerHParams:
    """Table 3 (D): no label smoothing. Paper: perplexity 4.67, BLEU 25.3."""
    return transformer_base().replace(label_smoothing=0.0)


@register_hparams
def transformer_ls2() -> TransformerHParams:
    """Table 3 (D): label smoothing 0.2. Paper: perplexity 5.47, BLEU 25.7."""
    return transformer_base().replace(label_smoothing=0.2)


# === (E) Positions ===


@register_hparams
def transformer_learned_positions() -> TransformerHParams:
    """Table 3 (E): learned positions instead of sinusoids. Paper: perplexity 4.92, BLEU 25.7."""
    # Tensor2Tensor has no set for this row. One table of max_length vectors serves source and target.
    return transformer_base().replace(positions="learned")
