"""Check of the hparams of mixtures of experts, shared by all models that have them."""

from typing import Any


def expert_complaints(hparams: Any) -> list[str]:
    """Returns an error text unless `experts_per_token` is smaller than `num_experts`."""
    if hparams.experts_per_token < hparams.num_experts:
        return []
    return [
        f"hparam experts_per_token={hparams.experts_per_token}: there are num_experts={hparams.num_experts}; it must "
        f"be smaller"
    ]
