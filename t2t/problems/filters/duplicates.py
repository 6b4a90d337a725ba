"""When two samples count as the same, for the filter of duplicates; t2t/data/duplicates.py finds them."""

import dataclasses
import hashlib
from collections.abc import Mapping
from typing import Any

DIGEST_BYTES = 16
"""Of 10^10 different samples, two have the same digest with a probability of 1.5 x 10^-19."""


@dataclasses.dataclass(frozen=True)
class DuplicateKey:
    """What of a sample is compared."""

    reason: str
    """Why duplicates are dropped, as it follows their number."""
    features: tuple[str, ...]
    """The features whose texts, or names of classes, are compared: as they are, every run of white space as a space."""

    def digest(self, sample: Mapping[str, Any]) -> bytes:
        """Returns `DIGEST_BYTES` that samples with the same content share and others do not."""
        texts = (" ".join(str(sample[name]).split()) for name in self.features)
        return hashlib.blake2b("\n".join(texts).encode(), digest_size=DIGEST_BYTES).digest()
