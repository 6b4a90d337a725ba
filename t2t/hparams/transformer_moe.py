"""Hparams of the Transformer whose feed-forward layers are mixtures of experts (Shazeer et al. 2017)."""

from dataclasses import dataclass
from typing import Any

from t2t.hparams.field import param
from t2t.hparams.transformer import TransformerHParams, transformer_base, transformer_tiny
from t2t.registry import register_hparams


def expert_complaints(hparams: Any) -> list[str]:
    """Returns an error text unless `experts_per_token` is smaller than `num_experts`."""
    if hparams.experts_per_token < hparams.num_experts:
        return []
    return [
        f"hparam experts_per_token={hparams.experts_per_token}: there are num_experts={hparams.num_experts}; it must "
        f"be smaller"
    ]


@dataclass(kw_only=True)
class TransformerMoeHParams(TransformerHParams):
    """Number and position of the experts, and the weight of the load-balancing loss."""

    num_experts: int = param(16, "Number of experts of each layer that has them.", minimum=2, only_shapes=True)
    experts_per_token: int = param(2, "Number of experts that each position uses, less than num_experts.", minimum=1)
    expert_layer_step: int = param(2, "Every n-th layer has experts; 1 = all layers.", minimum=1, only_shapes=True)
    expert_balance: float = param(
        0.01, "Weight of the two load-balancing losses, in nats per target (equations 7 and 11).", minimum=0.0,
        only_trains=True,
    )  # fmt: skip

    def experts_in(self, layer: int) -> int:
        """Returns the number of experts of a layer, counted from 0; 0 = a plain feed-forward layer."""
        return self.num_experts if (layer + 1) % self.expert_layer_step == 0 else 0

    def complaints(self) -> list[str]:
        """Checks that experts_per_token is less than num_experts."""
        return super().complaints() + expert_complaints(self)


@register_hparams
def transformer_moe() -> TransformerMoeHParams:
    """transformer_base with 16 experts in every second layer, of which each position uses two."""
    return TransformerMoeHParams.of(transformer_base())


@register_hparams
def transformer_moe_tiny() -> TransformerMoeHParams:
    """transformer_tiny with 4 experts in every second layer, of which each position uses two."""
    return TransformerMoeHParams.of(transformer_tiny(), num_experts=4)
