"""Words, where tokens are their pieces or labels: positions that count words, and the source word that comes next.

The next word is of use where outputs are about the source's words in their order.

Legend: B batch, S source length, T length, D width, V vocabulary. In a decoding step: N rows of one position each, and
a tensor named only `x` is (B, T, D) or (N, D).
"""

from typing import NamedTuple

import keras
import numpy as np
from keras import ops

from t2t.errors import UserError
from t2t.layers.cache import CachingLayer, StepCache
from t2t.layers.residual import CompositeLayer
from t2t.layers.tensors import Size, Tensor
from t2t.specs.constants import EOS_ID, PAD_ID
from t2t.specs.features import ProblemSpec

PARTS = 16
"""Symbols of one word that have positions of their own, a sixteenth apart; further ones have that of the last."""


class WordCounts(CachingLayer):
    """Counts words: a symbol that begins one has its number n, the next ones of the word n + 1/16, n + 2/16 and so on.

    With such counts as positions on both sides, outputs about word n have the positions of word n: the deterministic
    attention of Liu et al. 2018 (*Improving Sequence-to-Sequence Constituency Parsing*), as a hint and not as a rule.

    Args:
        word_starts: 0 or 1 for each id, see `FeatureSpec`.
        first: the number before any word. A target's position is for what comes after it: with 1, that of word n + 1
            once n words are written.
    """

    def __init__(self, word_starts: str, first: int = 0, **kwargs):
        super().__init__(**kwargs)
        self.starts_V = np.array([digit == "1" for digit in word_starts], np.int32)
        self.starts_V[[PAD_ID, EOS_ID]] = 0  # whatever a plug-in's vocabulary says
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

    def empty_entry(self, rows: Size, beams: int, length: Size) -> Tensor:
        """Returns the count before the first position, (N,) float32."""
        return ops.full((rows,), self.first, "float32")


def word_starts_of(spec: ProblemSpec, feature: str) -> str:
    """Returns the `word_starts` of a feature: the same for all problems of a mixture.

    Raises:
        UserError: a problem does not say which ids begin words, or two problems differ.
    """
    members = spec.members or (spec,)
    found = [held.word_starts if (held := member.features.get(feature)) else "" for member in members]
    for member, starts in zip(members, found, strict=True):
        if not starts:
            raise UserError(
                f"{member.name} does not say which ids of its {feature} begin words, as parsing does of trees and of "
                "SentencePiece's pieces",
                "choose other positions",
                hparam="positions",
                value="words",
            )
        if starts != found[0]:
            raise UserError(
                f"words of the {feature} begin with other ids in {member.name} than in {members[0].name}",
                "give both one vocabulary, of texts with --shared_vocab_file, or choose other positions",
                hparam="positions",
                value="words",
            )
    return found[0]


class SourceWords(NamedTuple):
    """The encoder's output by words."""

    number: Tensor
    """(B, S) float32: the number of the word of each position, -1 at padding."""
    vectors: Tensor
    """(B, S, D): the projected output of the encoder."""


class NextWord(CompositeLayer):
    """Adds to each position the mean of the encoder's output over the pieces of its next word, projected.

    Attention would have to find that word; Liu et al. 2018 (*Improving Sequence-to-Sequence Constituency Parsing*,
    AAAI) restrict attention to it, for the same reason. After the last word, nothing is added.

    Args:
        width: D.
    """

    def __init__(self, width: int, **kwargs):
        # Otherwise Keras would round the counts, which are fractions, to 16 bits.
        super().__init__(autocast=False, **kwargs)
        self.project = keras.layers.Dense(width, use_bias=False, dtype=self.dtype_policy, name="project")

    def read_source(self, x_BSD, count_BS, keep_BS) -> SourceWords:
        """Returns the words of the encoder's output.

        Args:
            x_BSD: output of the encoder.
            count_BS: float32, of `WordCounts`.
            keep_BS: bool, True at data.
        """
        return SourceWords(ops.where(keep_BS, ops.floor(count_BS), -1.0), self.project(x_BSD))

    def call(self, x, count, words: SourceWords, cache: StepCache | None = None):
        """Returns `x` with the vectors added; `count` is of `WordCounts`, (B, T) float32, or with a cache (N,)."""
        number = ops.floor(count)
        if cache is not None:
            number = cache.by_sentence(number[:, None], ops.shape(words.number)[0])[:, :, 0]
        share_BTS = ops.cast(ops.equal(number[:, :, None], words.number[:, None, :]), "float32")
        share_BTS = share_BTS / ops.maximum(ops.sum(share_BTS, axis=2, keepdims=True), 1.0)
        found_BTD = ops.matmul(ops.cast(share_BTS, words.vectors.dtype), words.vectors)
        return x + ops.reshape(found_BTD, ops.shape(x))
