"""Shared by all searches: the step function, its result, and the buffer of tokens.

Legend: B sentences, K hypotheses of each, N = B * K rows in sentence-major order, V vocabulary,
T longest allowed length. Where only some tokens have scores, V is their number.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

from keras import ops

from t2t.search.topk import top_k_blockwise


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
    rows, width = ops.shape(scores_NV)
    places_N = ops.arange(rows, dtype="int32") * width + places_NJ[:, 0]
    best_probs_N = ops.take(ops.reshape(ops.softmax(scores_NV, axis=-1), (-1,)), places_N)
    return best_NJ[:, :1] - ops.log(best_probs_N)[:, None]


def write_column(ids: Any, step: Any, tokens: Any) -> Any:
    """Returns ids (..., T) with `tokens` (...) written at position `step`, () int32."""
    here_T = ops.equal(ops.arange(ops.shape(ids)[-1], dtype="int32"), step)
    return ops.where(here_T, ops.expand_dims(tokens, -1), ids)


def pad_to_width(ids: Any, width: Any) -> Any:
    """Returns ids (..., T) with zeros after them, (..., width); width at least T."""
    shape = ops.shape(ids)
    return ops.concatenate([ids, ops.zeros((*shape[:-1], width - shape[-1]), ids.dtype)], axis=-1)
