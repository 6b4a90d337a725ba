"""Positions that count words: the number of the word that each symbol, a piece or a label, belongs to.

Legend: B batch, T length, V vocabulary. In a decoding step: N rows of one position each.
"""

from typing import Any

import numpy as np
from keras import ops

from t2t.errors import UserError
from t2t.layers.cache import CachingLayer, StepCache
from t2t.specs.features import FeatureSpec

PARTS = 16
"""Symbols of one word that have positions of their own, a sixteenth apart; further ones have that of the last."""


class WordCounts(CachingLayer):
    """Counts words: a symbol that begins one has its number n, the next ones of the word n + 1/16, n + 2/16 and so on.

    With such counts as positions on both sides, outputs about word n have the positions of word n: the deterministic
    attention of Liu et al. 2018 (*Improving Sequence-to-Sequence Constituency Parsing*), as a hint and not as a rule.

    Args:
        feature: of tokens, with `word_starts`; None for a mixture of problems.
        first: the number before any word. A target's position is for what comes after it: with 1, that of word n + 1
            once n words are written.

    Raises:
        UserError: the feature does not say which ids begin words.
    """

    def __init__(self, feature: FeatureSpec | None, first: int = 0, **kwargs):
        super().__init__(**kwargs)
        if feature is None or not feature.word_starts:
            raise UserError(
                "hparam positions=words: the problem does not say which ids begin words, as those of parsing do of "
                "trees and of SentencePiece's pieces; choose other positions"
            )
        self.starts_V = np.array([digit == "1" for digit in feature.word_starts], np.int32)
        self.first = first

    def call(self, ids, cache: StepCache | None = None):
        """Returns the count at each of `ids`, (B, T) float32 of (B, T) int32; with a cache (N,) of (N,)."""
        starts = ops.take(self.starts_V, ids, axis=0)
        if cache is None:
            return self._counts(starts)
        before_N = cache.state(self.path)
        word_N = ops.floor(before_N)
        same_N = ops.minimum(before_N + 1 / PARTS, word_N + (PARTS - 1) / PARTS)
        count_N = ops.where(starts > 0, word_N + 1, same_N)
        cache.set_state(self.path, count_N)
        return count_N

    def _counts(self, starts_BT):
        length = ops.shape(starts_BT)[1]
        words_BT = ops.cumsum(starts_BT, axis=1)
        # Symbols just before that belong to the same word; word 0 begins right before the sequence.
        earlier = ops.pad(words_BT, ((0, 0), (1, 0)))
        earlier = ops.pad(earlier, ((0, 0), (PARTS - 2, 0)), constant_values=-1)
        same = [ops.equal(earlier[:, k : k + length], words_BT) for k in range(PARTS - 1)]
        within_BT = sum(ops.cast(equal_BT, "float32") for equal_BT in same)
        return self.first + ops.cast(words_BT, "float32") + within_BT / PARTS

    def empty_entry(self, rows: Any, beams: int, length: Any) -> Any:
        """Returns the count before the first position, (N,) float32."""
        return ops.full((rows,), self.first, "float32")
