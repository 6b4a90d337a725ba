"""Labels: one of a few classes."""

import dataclasses
import functools
from collections.abc import Hashable
from typing import Any

import numpy as np

from t2t.features.feature import Feature, shown
from t2t.registry import register_feature
from t2t.specs.features import FeatureKind, FeatureSpec
from t2t.text.encoder import TextEncoder
from t2t.text.label import LabelEncoder, listed


@register_feature
@dataclasses.dataclass(frozen=True)
class Label(Feature):
    """One of a few classes: samples have its name."""

    kind = FeatureKind.LABEL
    names: tuple[str, ...] = ()
    """Names of the classes; a class's id is its index here. Empty for those that occur in the training samples."""
    count: int = 0
    """Number of the classes if only that is known; they are then those of the problem's vocabulary."""

    def spec(self, encoder: TextEncoder | None = None) -> FeatureSpec:
        """A label."""
        classes = self._encoder(encoder)
        return FeatureSpec(kind=self.kind, vocab_size=classes.vocab_size or self.count)

    def fixed_encoder(self) -> TextEncoder | None:
        """The declared classes."""
        return LabelEncoder(self.names) if self.names else None

    def needed(self, encoder: TextEncoder | None = None) -> str:
        """One of the classes."""
        known = self._encoder(encoder).names
        return f"one of its class_labels ({listed(known)})" if known else "one of its classes, a str each,"

    def fault(self, value: Any, name: str, encoder: TextEncoder | None = None) -> str:
        """A label is the name of a class."""
        known = self._encoder(encoder).names
        if not isinstance(value, Hashable) or (value not in known if known else not isinstance(value, str)):
            return f"has {shown(value)} for {name!r}, which is not a class"
        return ""

    def encode(self, values: list[Any], encoder: TextEncoder | None = None) -> list[np.ndarray]:
        """Encodes each class name as its id."""
        classes = self._encoder(encoder)
        return [np.asarray(classes.encode(value)[0], dtype=np.int32) for value in values]

    def decode(self, ids: Any, encoder: TextEncoder | None = None) -> str:
        """Returns the name of a class."""
        return self._encoder(encoder).decode(ids)

    def _encoder(self, encoder: TextEncoder | None) -> LabelEncoder:
        """Returns the encoder of the classes; declared ones need no vocabulary file."""
        return encoder if isinstance(encoder, LabelEncoder) else _classes(self.names)


@functools.lru_cache(maxsize=64)
def _classes(names: tuple[str, ...]) -> LabelEncoder:
    return LabelEncoder(names)
