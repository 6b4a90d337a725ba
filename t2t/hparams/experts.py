"""What hparams of mixtures of experts have to fulfil, whatever the model."""

from typing import Any


def expert_complaints(hparams: Any) -> list[str]:
    """Returns what is wrong with a number of chosen experts: some expert must be left out."""
    if hparams.experts_per_token < hparams.num_experts:
        return []
    return [
        f"hparam experts_per_token={hparams.experts_per_token}: there are num_experts={hparams.num_experts}; it must "
        f"be smaller"
    ]
