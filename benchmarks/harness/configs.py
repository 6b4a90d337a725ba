"""Sizes of the compared models; every peer builds the same ones."""

import dataclasses
from typing import Any


@dataclasses.dataclass(frozen=True, kw_only=True)
class Config:
    """Sizes of a Transformer, and settings of its training."""

    name: str
    width: int
    """Channels of the hidden states."""
    inner: int
    """Channels inside the feed-forward layer."""
    layers: int
    """Layers of the encoder, and of the decoder."""
    heads: int
    dropout: float
    """Rate on sub-layer outputs and embeddings; there is no other dropout."""
    batch_size: int
    """Maximum padded tokens of the longer side of a training batch."""
    warm: int
    """Warm-up updates, which are not measured."""
    steps: int
    """Measured updates."""
    sentences: int
    """Number of decoded sentences."""

    def to_dict(self) -> dict[str, Any]:
        """Returns it as plain JSON."""
        return dataclasses.asdict(self)

    def overrides(self) -> str:
        """Returns these sizes as overrides of our `transformer_base`, whose loss and optimizer all sides use."""
        changes = {
            "hidden_size": self.width,
            "filter_size": self.inner,
            "num_hidden_layers": self.layers,
            "num_heads": self.heads,
            "layer_prepostprocess_dropout": self.dropout,
            "batch_size": self.batch_size,
        }
        return ",".join(f"{name}={value}" for name, value in changes.items())


CONFIGS = {
    config.name: config
    for config in (
        Config(
            name="mini", width=16, inner=32, layers=1, heads=2, dropout=0.1, batch_size=512,
            warm=1, steps=2, sentences=4,
        ),
        Config(
            name="tiny", width=128, inner=256, layers=4, heads=4, dropout=0.3, batch_size=4096,
            warm=5, steps=30, sentences=1000,
        ),
        Config(
            name="small", width=256, inner=1024, layers=3, heads=4, dropout=0.1, batch_size=4096,
            warm=4, steps=12, sentences=1000,
        ),
        Config(
            name="base", width=512, inner=2048, layers=6, heads=8, dropout=0.1, batch_size=1024,
            warm=3, steps=8, sentences=96,
        ),
    )
}  # fmt: skip
"""By name; `mini` is only for checking that everything runs."""
