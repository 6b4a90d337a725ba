"""Positions that count words: the number of the word that each symbol, a piece or a label, belongs to.

Legend: B batch, T length, V vocabulary. In a decoding step: N rows of one position each.
"""

from typing import Any

import numpy as np
from keras import ops

from t2t.errors import UserError
from t2t.layers.cache import CachingLayer, StepCache
from t2t.specs.features import FeatureSpec

WITHIN_WORD = 1 / 16
"""Added to the count by a symbol that begins no word: small, but it encodes the order within a word."""


class WordCounts(CachingLayer):
    """Counts words: a symbol that begins one adds 1, any other `WITHIN_WORD`, itself included.

    With such counts as positions on both sides, outputs about word n have the position of word n: the deterministic
    attention of Liu et al. 2018 (*Improving Sequence-to-Sequence Constituency Parsing*), as a hint and not as a rule.

    Args:
        feature: of tokens, with `word_starts`; None for a mixture of problems.

    Raises:
        UserError: the feature does not say which ids begin words.
    """

    def __init__(self, feature: FeatureSpec | None, **kwargs):
        super().__init__(**kwargs)
        if feature is None or not feature.word_starts:
            raise UserError(
                "hparam positions=words: the problem does not say which ids begin words, as those of parsing do of "
                "trees and of SentencePiece's pieces; choose other positions"
            )
        starts_V = np.array([digit == "1" for digit in feature.word_starts])
        self.added_V = np.where(starts_V, 1.0, WITHIN_WORD).astype(np.float32)

    def call(self, ids, cache: StepCache | None = None):
        """Returns the count at each of `ids`, (B, T) float32 of (B, T) int32; with a cache (N,) of (N,)."""
        added = ops.take(self.added_V, ids, axis=0)
        if cache is None:
            return ops.cumsum(added, axis=1)
        count_N = cache.state(self.path) + added
        cache.set_state(self.path, count_N)
        return count_N

    def empty_entry(self, rows: Any, beams: int, length: Any) -> Any:
        """Returns the count before the first position, (N,) zeros."""
        return ops.zeros((rows,), "float32")
