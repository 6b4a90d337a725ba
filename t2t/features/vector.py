"""Vectors: numbers at each position."""

import dataclasses
from typing import Any

import numpy as np

from t2t.features.feature import Feature, shown
from t2t.registry import register_feature
from t2t.specs.features import FeatureKind, FeatureSpec
from t2t.text.encoder import TextEncoder


@register_feature
@dataclasses.dataclass(frozen=True)
class Vector(Feature):
    """A sequence of vectors: samples have (length, channels) arrays of float."""

    kind = FeatureKind.REAL
    channels: int
    """Numbers at each position."""

    def spec(self, encoder: TextEncoder | None = None) -> FeatureSpec:
        """A sequence of vectors."""
        return FeatureSpec(kind=self.kind, shape=(self.channels,))

    def needed(self, encoder: TextEncoder | None = None) -> str:
        """An array."""
        return f"a numpy array (length, {self.channels}) of float"

    def fault(self, value: Any, name: str, encoder: TextEncoder | None = None) -> str:
        """A sequence of vectors is a float array."""
        if isinstance(value, np.ndarray) and value.ndim == 2 and np.issubdtype(value.dtype, np.floating):
            return "" if value.shape[1] == self.channels else f"has vectors of {value.shape[1]} numbers for {name!r}"
        return f"has {shown(value)} for {name!r}"

    def encode(self, values: list[Any], encoder: TextEncoder | None = None) -> list[np.ndarray]:
        """Converts to float32."""
        with np.errstate(over="ignore"):  # generation refuses the infinite values that result
            return [value.astype(np.float32) for value in values]
