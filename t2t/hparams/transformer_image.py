"""Hparams of the Transformer that writes images, as long sequences of intensities; for `transformer_lm` too."""

from t2t.hparams.transformer import TransformerHParams
from t2t.hparams.transformer_lm import transformer_lm_base, transformer_lm_tiny
from t2t.registry import register_hparams


@register_hparams
def transformer_image_base() -> TransformerHParams:
    """transformer_lm_base for images of 32 x 32 in colour: sequences of up to 3,200 ids, sampled."""
    return _of_length(transformer_lm_base(), 3200)


@register_hparams
def transformer_image_tiny() -> TransformerHParams:
    """transformer_lm_tiny for images of 28 x 28: sequences of up to 800 ids, sampled."""
    return _of_length(transformer_lm_tiny(), 800)


def _of_length(hparams: TransformerHParams, length: int) -> TransformerHParams:
    # A search would write the one likeliest image: blank paper.
    return hparams.replace(max_length=length, extra_length=length, batch_size=2 * length, decode_method="sample")
