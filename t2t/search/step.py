"""Shared by all searches: the step function and its result, the k best tokens, the tensors carried from step to step.

Ties are always broken the same way: the lower index wins.

Legend: B sentences, K hypotheses of each, N = B * K rows in sentence-major order, V vocabulary, T longest allowed
length, C candidates kept, M blocks of W neighbours of a row, J chosen sentences. Where only some tokens have scores, V
is their number.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import keras
from keras import ops

from t2t.layers.beams import gather_beams


class NextToken(NamedTuple):
    """A model's scores of the next token of every row.

    A search needs few of the V log-probabilities of a row, so only those are normalised.
    """

    scores: Any
    """(N, V) float32: logits or log-probabilities; -inf forbids a token."""
    normalised: bool
    """Whether they are log-probabilities."""
    never: int | None = None
    """The id that is never produced, whatever its score; its probability is not redistributed."""
    coverage: Any = None
    """(N,) float32, at most 0: added to the score of a hypothesis that ends here, see `t2t.search.coverage`."""
    ids: Any = None
    """(V,) int32, ascending: the tokens that have scores; None for all tokens."""

    @property
    def columns(self) -> Any:
        """Returns the token of each column of the scores, (V,) int32."""
        return ops.arange(self.scores.shape[-1], dtype="int32") if self.ids is None else self.ids

    def tokens_at(self, places: Any) -> Any:
        """Returns the tokens of these columns of the scores, int32 of any shape."""
        return places if self.ids is None else ops.take(self.ids, places)


StepFn = Callable[[Any, Any, Any], tuple[Any, Any]]
"""`step_fn(ids, position, state) -> (next, state)`: one token for every row.

- ids: (N,) int32, the last token of each row, at first PAD_ID.
- position: () int32, the number of tokens produced so far, from 0.
- state: a nested structure of tensors, each with N or B as its first axis; () for none. Structure and dtypes stay the
  same. So do shapes, except axes of unknown size in the graph, which may grow.
- next: a `NextToken`, or only its log-probabilities (N, V) float, at most 0; -inf forbids a token.

Beam search copies the state at every step to reorder it (see `reorder_rows`). What is the same for all
rows of a sentence (projected encoder keys and values, masks) belongs in the closure of `step_fn` instead. Finished
rows are still passed in; their results are ignored.
"""


def as_next_token(found: Any) -> NextToken:
    """Converts the result of a step function to a `NextToken`."""
    return found if isinstance(found, NextToken) else NextToken(ops.cast(found, "float32"), normalised=True)


def all_log_probs(found: NextToken, vocab_size: int) -> Any:
    """Returns the log-probabilities of every token, (N, V) float32; -inf for the one that is never produced.

    `vocab_size` is the number of all tokens.
    """
    scores_NV = _of_known_width(found, vocab_size)
    log_probs_NV = scores_NV if found.normalised else ops.log_softmax(scores_NV, axis=-1)
    if found.never is None:
        return log_probs_NV
    return ops.where(ops.equal(found.columns, found.never)[None, :], -float("inf"), log_probs_NV)


def best_log_probs(found: NextToken, vocab_size: int, count: int) -> tuple[Any, Any]:
    """Returns the `count` most probable tokens of each row, or all V, best first; ties go to the lower id.

    `vocab_size` is the number of all tokens; where only some have scores, these are at least `count` + 1.

    Returns:
        Log-probabilities (N, J) float32, those of a token that is never produced -inf, and ids (N, J) int32.
    """
    scores_NV = _of_known_width(found, vocab_size)
    # One more, since the forbidden id may be among them.
    scores_NJ, places_NJ = top_k_blockwise(scores_NV, min(count + (found.never is not None), vocab_size))
    log_probs_NJ = scores_NJ if found.normalised else scores_NJ - _log_totals(scores_NV, scores_NJ, places_NJ)
    tokens_NJ = found.tokens_at(places_NJ)
    if found.never is not None:
        log_probs_NJ = ops.where(ops.equal(tokens_NJ, found.never), -float("inf"), log_probs_NJ)
    return log_probs_NJ, tokens_NJ


def _of_known_width(found: NextToken, vocab_size: int) -> Any:
    """Returns the scores (N, V), with a static width if they are of all tokens."""
    return ops.reshape(found.scores, (-1, vocab_size)) if found.ids is None else found.scores


def _log_totals(scores_NV: Any, best_NJ: Any, places_NJ: Any) -> Any:
    """Returns log(sum(exp(scores))) of each row, (N, 1): a score minus its log-probability.

    Computed from the best token's probability, at least 1/V: a softmax is one pass over a row, `logsumexp` three.
    """
    return best_NJ[:, :1] - ops.log(gather_beams(ops.softmax(scores_NV, axis=-1), places_NJ[:, :1]))


def write_column(ids: Any, step: Any, tokens: Any) -> Any:
    """Returns ids (..., T) with `tokens` (...) written at position `step`, () int32."""
    here_T = ops.equal(ops.arange(ops.shape(ids)[-1], dtype="int32"), step)
    return ops.where(here_T, ops.expand_dims(tokens, -1), ids)


def pad_to_width(ids: Any, width: Any) -> Any:
    """Returns ids (..., T) with zeros after them, (..., width); width at least T."""
    shape = ops.shape(ids)
    return ops.concatenate([ids, ops.zeros((*shape[:-1], width - shape[-1]), ids.dtype)], axis=-1)


WIDE = 1024
"""Rows of at least so many values are sorted by blocks."""

SMALLEST_BLOCK, LARGEST_BLOCK = 16, 128


class Candidates(NamedTuple):
    """The best continuations of the beams of each sentence, best first; ties: lower beam, then lower token."""

    log_probs: Any
    """(B, C) float32: log-probability of the continued hypothesis."""
    beams: Any
    """(B, C) int32: the beam it continues."""
    tokens: Any
    """(B, C) int32: the token it adds."""


def top_k(values: Any, k: int) -> tuple[Any, Any]:
    """Returns the k largest along the last axis, largest first, and their indices (int32); ties: lower index first."""
    best, indices = ops.top_k(values, k, sorted=True)
    return best, ops.cast(indices, "int32")


def most_probable(log_probs: Any) -> Any:
    """Returns the best token of each row, (N, V) float32 to (N,) int32; ties: lower id."""
    return top_k_blockwise(log_probs, 1)[1][:, 0]


def top_k_blockwise(values: Any, k: int) -> tuple[Any, Any]:
    """Returns exactly what `top_k` returns, but faster for wide rows and small k.

    Rows are cut into blocks of neighbours, and only the k blocks with the largest maxima are sorted: the k largest
    values are in them.

    Args:
        values: (N, V) float32; if V is not static, whole rows are sorted.
        k: at most V.
    """
    width = values.shape[-1]
    block = None if width is None else block_width(width, k)
    if block is None:
        return top_k(values, k)
    if width % block:
        values = ops.pad(values, ((0, 0), (0, -width % block)), constant_values=-float("inf"))
    count = -(-width // block)
    blocks_NMW = ops.reshape(values, (-1, count, block))
    _, chosen_Nk = top_k(ops.max(blocks_NMW, axis=-1), k)
    chosen_Nk = ops.sort(chosen_Nk, axis=-1)  # so that ties still go to the lower index
    best_Nk, places_Nk = top_k(ops.reshape(gather_beams(blocks_NMW, chosen_Nk), (-1, k * block)), k)
    return best_Nk, gather_beams(chosen_Nk, places_Nk // block) * block + places_Nk % block


def block_width(width: int, k: int) -> int | None:
    """Returns W for the k largest of `width` values, None where blocks are not faster.

    width / W maxima and then k * W values are sorted: W is the divisor of the width for which this is least, or 64.
    """
    if width < WIDE or 4 * k * SMALLEST_BLOCK > width:
        return None
    sizes = range(SMALLEST_BLOCK, min(LARGEST_BLOCK, width // (2 * k)) + 1)
    return min([size for size in sizes if width % size == 0] or [64], key=lambda size: width / size + k * size)


def best_over_beams(log_probs: Any, tokens: Any, beam_size: int, count: int) -> Candidates:
    """Picks the C = `count` best continuations of each sentence from the J best of each beam, (N, J) each."""
    per_beam = log_probs.shape[-1]
    flat = (-1, beam_size * per_beam)
    best_BC, places_BC = top_k(ops.reshape(log_probs, flat), count)
    return Candidates(best_BC, places_BC // per_beam, gather_beams(ops.reshape(tokens, flat), places_BC))


def keep_top_k(log_probs: Any, k: Any, most: int | None = None) -> Any:
    """Forbids (-inf) all but the k most probable tokens: Fan et al. 2018 (arXiv:1805.04833), section 5.1.

    Args:
        log_probs: (N, V) float32, up to a constant for each row.
        k: int or (N, 1) int32, exact number of tokens to keep, at least 1; ties go to lower ids.
        most: int, an upper bound of `k`: no more tokens are sorted; None for none.
    """
    width = ops.shape(log_probs)[-1]
    if most is not None:
        width = min(most, width) if isinstance(width, int) else ops.minimum(most, width)
    k = ops.minimum(k, width)
    last_N1 = ops.broadcast_to(k - 1, (ops.shape(log_probs)[0], 1))
    return _keep_largest(log_probs, ops.take_along_axis(top_k(log_probs, width)[0], last_N1, axis=1), k)


def keep_top_p(log_probs: Any, p: Any) -> Any:
    """Forbids (-inf) all but the nucleus: Holtzman et al. 2020 (arXiv:1904.09751), equation 2.

    The nucleus is the smallest set of most probable tokens whose probabilities sum to at least p; ties go to lower ids.

    Args:
        log_probs: (N, V) float32, up to a constant for each row.
        p: in (0, 1], a number or (N, 1) float32.
    """
    largest_NV, _ = top_k(log_probs, ops.shape(log_probs)[-1])
    probs_NV = ops.softmax(largest_NV, axis=-1)
    before_NV = ops.cumsum(probs_NV, axis=-1) - probs_NV
    # The first token always stays: 0 comes before it, which is less than any p.
    size_N1 = ops.maximum(ops.sum(ops.cast(before_NV < p, "int32"), axis=-1, keepdims=True), 1)
    return _keep_largest(log_probs, ops.take_along_axis(largest_NV, size_N1 - 1, axis=-1), size_N1)


def _keep_largest(values: Any, smallest_kept: Any, count: Any) -> Any:
    """Keeps the `count` largest of each row of (N, V), the smallest of which is `smallest_kept`, (N, 1)."""
    above = values > smallest_kept
    level = ops.equal(values, smallest_kept)
    room = count - ops.sum(ops.cast(above, "int32"), axis=-1, keepdims=True)
    kept = ops.logical_or(above, ops.logical_and(level, ops.cumsum(ops.cast(level, "int32"), axis=-1) <= room))
    return ops.where(kept, values, -float("inf"))


def as_tensors(structure: Any) -> Any:
    """Converts the leaves of a state to tensors, so that a loop can carry them."""
    return keras.tree.map_structure(ops.convert_to_tensor, structure)


def advance_while_active(
    active_sentences: Callable, add_token: Callable, progress: Any, until: Any, min_active: Any
) -> Any:
    """Adds tokens until `until` are written or at most `min_active` sentences are unfinished; returns the progress."""

    def unfinished(*now):
        active_B = active_sentences(type(progress)(*now))
        return ops.logical_and(now[0] < until, ops.sum(ops.cast(active_B, "int32")) > min_active)

    return type(progress)(*ops.while_loop(unfinished, add_token, progress))


def restore_shapes(structure: Any, like: Any) -> Any:
    """Restores the static shapes of `like`, which a graph loop requires to be constant."""

    def restore(new: Any, old: Any) -> Any:
        # No reshape if the static shapes agree: it would fix a growing axis at its old size.
        return new if tuple(new.shape) == tuple(old.shape) else ops.reshape(new, ops.shape(old))

    keras.tree.assert_same_structure(like, structure)
    return keras.tree.map_structure(restore, structure, like)
