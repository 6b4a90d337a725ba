"""The key by which two samples count as duplicates; t2t/data/generation/duplicates.py finds them."""

import dataclasses
import hashlib
from collections.abc import Mapping
from typing import Any

DIGEST_BYTES = 16
"""Of 10^10 different samples, two have the same digest with a probability of 1.5 x 10^-19."""


@dataclasses.dataclass(frozen=True)
class DuplicateKey:
    """The features of a sample that are compared."""

    reason: str
    """Why duplicates are dropped, in the form that follows their number in messages."""
    features: tuple[str, ...]
    """Features whose texts, or names of classes, are compared, with each run of white space replaced by a space."""

    def digest(self, sample: Mapping[str, Any]) -> bytes:
        """Returns a digest, `DIGEST_BYTES` long, that is the same only for samples with the same content."""
        texts = (" ".join(str(sample[name]).split()) for name in self.features)
        return hashlib.blake2b("\n".join(texts).encode(), digest_size=DIGEST_BYTES).digest()
