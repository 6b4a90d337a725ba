"""Hparams of the Transformer as a language model: norms in front, where depth trains without warm-up troubles."""

from t2t.hparams.transformer import TransformerHParams, transformer_base, transformer_tiny
from t2t.registry import register_hparams


@register_hparams
def transformer_lm_base() -> TransformerHParams:
    """transformer_base as a language model: 6 layers, d 512, norms in front."""
    return _language_model(transformer_base())


@register_hparams
def transformer_lm_tiny() -> TransformerHParams:
    """transformer_tiny as a language model: 2 layers, d 128, norms in front."""
    return _language_model(transformer_tiny())


def _language_model(hparams: TransformerHParams) -> TransformerHParams:
    return hparams.replace(norm_position="pre", label_smoothing=0.0, max_length=512)
