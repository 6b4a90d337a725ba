"""Mask-predict decoding: predicts all tokens at once, then repeatedly the least probable ones again.

Ghazvininejad et al. 2019 (arXiv:1904.09324), section 3. Beams and samples grow token by token, see
`t2t.search.methods`; here the length of an output is decided before its tokens.

Legend: B sentences, K length candidates of each, N = B * K rows in sentence-major order, T width: the longest candidate
and its end, L lengths that a model can predict, M masked words, J best tokens of each, V vocabulary.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

from keras import ops

from t2t.layers.beams import gather_beams
from t2t.layers.loops import fold
from t2t.search.constraints import forbid_padding
from t2t.search.result import NO_HYPOTHESIS, SearchResult
from t2t.search.step import NextToken, best_log_probs, top_k
from t2t.specs import EOS_ID, PAD_ID

PredictFn = Callable[[Any, Any], tuple[Any, Any]]
"""`predict(ids, is_masked) -> (words, log_probs)`: the most probable word at every masked position, given the others.

- ids: (N, T) int32, the words with end of sequence after them; PAD_ID at masked positions and after the end.
- is_masked: (N, T) bool.
- words, log_probs: (N, T) int32 and float32, meaningful only at masked positions.
"""


class LengthCandidates(NamedTuple):
    """The most probable lengths of each sentence, most probable first."""

    words: Any
    """(B, K) int32: number of words, without end of sequence; 0 where there is no such candidate."""
    log_probs: Any
    """(B, K) float32: log-probabilities of the lengths; -inf where there is no such candidate."""


def likeliest_lengths(log_probs: Any, count: int, limits: Any) -> LengthCandidates:
    """Returns the K = `count` most probable lengths (section 3.3); ties go to the shorter one.

    Args:
        log_probs: (B, L) float32, log-probability of each number of words from 0 on.
        count: K.
        limits: (B,) int32, most tokens of an output, end of sequence included.
    """
    words_L = ops.arange(log_probs.shape[-1], dtype="int32")
    allowed_BL = ops.logical_and(words_L > 0, words_L < ops.expand_dims(limits, 1))
    allowed_BL = ops.logical_and(allowed_BL, log_probs > -float("inf"))  # not where it is NaN
    log_probs = ops.where(allowed_BL, log_probs, -float("inf"))
    missing = max(count - log_probs.shape[-1], 0)
    best_BK, words_BK = top_k(ops.pad(log_probs, ((0, 0), (0, missing)), constant_values=-float("inf")), count)
    return LengthCandidates(ops.where(best_BK > -float("inf"), words_BK, 0), best_BK)


def mask_predict(predict: PredictFn, words: Any, iterations: int, width: Any = None) -> tuple[Any, Any]:
    """Predicts all words of each row, and in each further iteration the least probable ones again (section 3.1).

    In iteration t = 0, 1, ... of R a row of n words has n (R - t) / R of them masked, rounded down. The others keep
    their tokens and the log-probabilities that these had when they were predicted.

    Args:
        predict: see `PredictFn`.
        words: (N,) int32, number of words of each row.
        iterations: R, at least 1.
        width: T, int or () int32, more than any number of words; None for one more than the largest.

    Returns:
        (N, T) int32: the words, end of sequence after them, zeros after it; and (N, T) float32: the log-probabilities
        of the words, 0 elsewhere.
    """
    words_N1 = ops.expand_dims(words, 1)
    places_T = ops.arange(ops.max(words) + 1 if width is None else width, dtype="int32")
    is_word_NT = places_T < words_N1

    def iterate(t, ids_NT, log_probs_NT):
        is_masked_NT = least_probable(log_probs_NT, is_word_NT, words * (iterations - t) // iterations)
        words_NT, found_NT = predict(ops.where(is_masked_NT, PAD_ID, ids_NT), is_masked_NT)
        return ops.where(is_masked_NT, words_NT, ids_NT), ops.where(is_masked_NT, found_NT, log_probs_NT)

    ids_NT = ops.where(ops.equal(places_T, words_N1), EOS_ID, PAD_ID)
    return fold(0, iterations, iterate, (ids_NT, ops.zeros_like(ids_NT, "float32")))


def least_probable(log_probs: Any, is_word: Any, count: Any) -> Any:
    """Returns where the `count` (N,) least probable words of each row are, (N, T) bool; ties: the earlier word.

    `log_probs` (N, T) float32 are of words where `is_word` (N, T) bool is True.
    """
    order_NT = ops.argsort(ops.where(is_word, log_probs, float("inf")), axis=-1)
    rank_NT = ops.argsort(order_NT, axis=-1)
    return ops.cast(rank_NT, "int32") < ops.expand_dims(count, 1)


def most_probable_words(logits: Any) -> tuple[Any, Any]:
    """Returns the most probable word of each row, and its log-probability, (M,) int32 and float32.

    It is never padding or end of sequence; their probability is not redistributed.

    Args:
        logits: (M, V) float32.
    """
    found = forbid_padding(NextToken(logits, normalised=False))
    log_probs_MJ, tokens_MJ = best_log_probs(found, logits.shape[-1], 2)
    allowed_MJ = ops.where(ops.equal(tokens_MJ, EOS_ID), -float("inf"), log_probs_MJ)
    first_M1 = ops.argmax(allowed_MJ, axis=-1, keepdims=True)
    words_M1, log_probs_M1 = (ops.take_along_axis(x_MJ, first_M1, axis=-1) for x_MJ in (tokens_MJ, allowed_MJ))
    return words_M1[:, 0], log_probs_M1[:, 0]


def rank_candidates(ids: Any, log_probs: Any, candidates: LengthCandidates) -> SearchResult:
    """Returns the outputs of each sentence, those with the highest mean log-probability of a word first (section 3.3).

    That mean is the score. The log-probability of an output sums those of its length and of its words, each from its
    last prediction.

    Args:
        ids: (N, T) int32, see `mask_predict`.
        log_probs: (N, T) float32, see `mask_predict`.
        candidates: of each sentence.
    """
    count = candidates.words.shape[1]
    ids_BKT = ops.reshape(ids, (-1, count, ops.shape(ids)[1]))
    total_BK = ops.reshape(ops.sum(log_probs, axis=1), (-1, count))
    exists_BK = ops.logical_and(candidates.words > 0, ops.isfinite(total_BK))
    mean_BK = total_BK / ops.cast(ops.maximum(candidates.words, 1), "float32")
    scores_BK, order_BK = top_k(ops.where(exists_BK, mean_BK, NO_HYPOTHESIS), count)
    fields = (
        ops.where(exists_BK[..., None], ids_BKT, PAD_ID),
        ops.where(exists_BK, total_BK + candidates.log_probs, NO_HYPOTHESIS),
        ops.where(exists_BK, candidates.words + 1, 0),
    )
    ids_BKT, log_probs_BK, lengths_BK = (gather_beams(field, order_BK) for field in fields)
    return SearchResult(ids_BKT, scores_BK, log_probs_BK, lengths_BK)
