"""The Transformer with mixtures of experts (Shazeer et al. 2017, arXiv:1701.06538) in place of feed-forward layers."""

from typing import Any

from t2t.errors import UserError
from t2t.hparams.base import HParams
from t2t.hparams.transformer_moe import TransformerMoeHParams
from t2t.models.transformer import Transformer
from t2t.registry import register_model
from t2t.specs.features import ProblemSpec


@register_model
class TransformerMoe(Transformer):
    """The Transformer with experts: every so many layers, each position uses a few of many feed-forward networks."""

    hparams_class = TransformerMoeHParams

    @classmethod
    def check_new(cls, hparams: Any, named_set: HParams, spec: ProblemSpec) -> None:
        """Raises UserError if no layer would have experts; see the base class."""
        super().check_new(hparams, named_set, spec)
        layers = max(hparams.decoder_layers, hparams.encoder_layers if spec.inputs else 0)
        if not any(map(hparams.experts_in, range(layers))):
            raise UserError(
                f"a stack has at most {layers} layers, so that none would have experts",
                f"choose a step of at most {layers}, or train transformer",
                hparam="expert_layer_step",
                value=hparams.expert_layer_step,
            )
