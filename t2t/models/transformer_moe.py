"""The Transformer with mixtures of experts (Shazeer et al. 2017, arXiv:1701.06538) in place of feed-forward layers."""

from t2t.hparams.transformer_moe import TransformerMoeHParams
from t2t.models.transformer import Transformer
from t2t.registry import register_model


@register_model
class TransformerMoe(Transformer):
    """The Transformer with experts: every so many layers, each position uses a few of many feed-forward networks."""

    hparams_class = TransformerMoeHParams
