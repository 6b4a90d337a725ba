"""Search without beams, one token at a time: greedy search and sampling.

Random numbers come from a counter-based generator. Each row has a separate random stream, so that a sentence's samples
do not depend on its batch; `keras.random` takes one seed for a whole tensor.

Legend: B sentences, K samples of each, N = B * K rows, V vocabulary, T longest allowed length.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

from keras import ops

from t2t.search.constraints import Constraint
from t2t.search.result import NO_HYPOTHESIS, LengthPenalty, SearchResult
from t2t.search.settings import SamplingNumbers
from t2t.search.step import (
    NextToken,
    StepFn,
    advance_while_active,
    all_log_probs,
    as_next_token,
    as_tensors,
    best_log_probs,
    keep_top_k,
    keep_top_p,
    most_probable,
    pad_to_width,
    restore_shapes,
    write_column,
)
from t2t.specs import EOS_ID, PAD_ID

Chooser = Callable[[NextToken, Any], tuple[Any, Any]]
"""(the model's scores, position () int32) -> tokens (N,) int32 and their log-probabilities (N,) float32."""


class _Rows(NamedTuple):
    """One growing output per row."""

    ids: Any
    """(N, T) int32."""
    tokens: Any
    """(N,) int32: the last token."""
    log_probs: Any
    """(N,) float32."""
    lengths: Any
    """(N,) int32."""
    active: Any
    """(N,) bool: has neither ended nor reached its limit."""
    constraint: Any = ()
    """(N, S) int32: the state of the constraint; () where it has none."""


def greedy_chooser(vocab_size: int) -> Chooser:
    """Returns a chooser of the most probable token; ties go to the lower id."""

    def choose(found, position):
        log_probs_NJ, tokens_NJ = best_log_probs(found, vocab_size, 1)
        if found.never is None:
            return tokens_NJ[:, 0], log_probs_NJ[:, 0]
        struck_N = ops.equal(tokens_NJ[:, 0], found.never)
        return tuple(ops.where(struck_N, both[:, 1], both[:, 0]) for both in (tokens_NJ, log_probs_NJ))

    return choose


def sampling_chooser(
    numbers: SamplingNumbers,
    sentence_seeds: Any,
    samples: int,
    vocab_size: int,
    *,
    most_k: int = 0,
    uses_top_p: bool = False,
) -> Chooser:
    """Returns a chooser that samples tokens.

    Random numbers depend only on (seed, sentence's seed, number of the sample, position), not on the rest of the batch.
    The log-probabilities returned are the model's own.

    Args:
        numbers: how each sentence is sampled, (B,), or (1,) for all.
        sentence_seeds: (B,) int32 that identifies each sentence, e.g. its line number.
        samples: K, samples of each sentence.
        vocab_size: V, int.
        most_k: the largest `top_k` there may be; 0 to ignore `top_k` and draw from all tokens.
        uses_top_p: whether to draw from the nucleus of the probability `top_p`.
    """
    row_seeds_N = ops.repeat(ops.convert_to_tensor(sentence_seeds), samples, axis=0)
    draw_N = ops.tile(ops.arange(samples, dtype="int32"), (ops.shape(row_seeds_N)[0] // samples,))
    sizes = ops.shape(sentence_seeds)
    rows = SamplingNumbers(*(ops.repeat(ops.broadcast_to(one, sizes), samples, axis=0) for one in numbers))

    def choose(found, position):
        log_probs_NV = all_log_probs(found, vocab_size)
        noise_N = uniform(rows.seed, row_seeds_N, position, draw_N)
        places_N = draw(distribution(log_probs_NV, rows, most_k, uses_top_p), noise_N)
        return found.tokens_at(places_N), _values_at(log_probs_NV, places_N)

    return choose


def distribution(log_probs: Any, numbers: SamplingNumbers, most_k: int = 0, uses_top_p: bool = False) -> Any:
    """Returns the probabilities (N, V) float32 that tokens are drawn with; forbidden ones have exactly 0.

    Temperature applies first, then `top_k`, then `top_p`. `numbers` are of the rows, (N,); see `sampling_chooser`.
    """
    shaped_NV = log_probs / ops.expand_dims(numbers.temperature, 1)
    if most_k:
        shaped_NV = keep_top_k(shaped_NV, ops.expand_dims(numbers.top_k, 1), most_k)
    if uses_top_p:
        shaped_NV = keep_top_p(shaped_NV, ops.expand_dims(numbers.top_p, 1))
    return ops.softmax(shaped_NV, axis=-1)


def draw(probs: Any, noise: Any) -> Any:
    """Draws a token for each row by inverting the cumulative distribution.

    Args:
        probs: (N, V) float32.
        noise: (N,) float32 in [0, 1).

    Returns:
        (N,) int32: the index of the first token at which the cumulative probability exceeds the noise.
    """
    cumulative_NV = ops.cumsum(probs, axis=-1)
    target_N1 = ops.expand_dims(noise, 1) * cumulative_NV[:, -1:]
    tokens_N = ops.sum(ops.cast(cumulative_NV <= target_N1, "int32"), axis=-1)
    tokens_N = ops.minimum(tokens_N, ops.shape(probs)[-1] - 1)
    # Parallel sums need not be monotonic; where rounding selects a forbidden token, take the most probable one.
    allowed_N = _values_at(probs, tokens_N) > 0
    return ops.where(allowed_N, tokens_N, most_probable(probs))


class TokenByTokenProgress(NamedTuple):
    """State of an unfinished search; every tensor but `step` has rows as its first axis."""

    step: Any
    """() int32: tokens so far."""
    rows: _Rows
    state: Any


class TokenByToken(NamedTuple):
    """Greedy search or sampling, with the methods of `t2t.search.beam_search.BeamSearch`."""

    rows_per_sentence: int
    limits: Any
    """(B,) int32."""
    penalty: LengthPenalty
    choose: Chooser
    constraint: Constraint | None = None
    """What may be written next; None for anything."""
    eos_penalty: float = 0.0
    """Subtracted by the constraint at end of sequence; it lowers scores, not the log-probabilities of the result."""

    def start(self, state: Any, width: Any) -> TokenByTokenProgress:
        """Returns the initial state of a search."""
        start_N = ops.full((ops.shape(self.limits)[0] * self.rows_per_sentence,), PAD_ID, "int32")
        rows = _Rows(
            ids=ops.zeros((*ops.shape(start_N), width), "int32"),
            tokens=start_N,
            log_probs=ops.zeros_like(start_N, "float32"),
            lengths=ops.zeros_like(start_N),
            active=ops.ones_like(start_N, "bool"),
        )
        return TokenByTokenProgress(ops.zeros((), "int32"), rows, as_tensors(state))

    def constrain(self, progress: TokenByTokenProgress, states_BS: Any) -> TokenByTokenProgress:
        """Sets the first states of the constraint, (B, S) int32, in a state that `start` returned."""
        states_NS = ops.repeat(states_BS, self.rows_per_sentence, axis=0)
        return progress._replace(rows=progress.rows._replace(constraint=states_NS))

    def active_sentences(self, progress: TokenByTokenProgress) -> Any:
        """Returns which sentences are unfinished, (B,) bool."""
        return ops.any(ops.reshape(progress.rows.active, (-1, self.rows_per_sentence)), axis=1)

    def advance(
        self, step_fn: StepFn, progress: TokenByTokenProgress, until: Any, min_active: Any = 0
    ) -> TokenByTokenProgress:
        """Continues until `until` tokens are written or at most `min_active` sentences are unfinished."""
        limits_N = ops.repeat(self.limits, self.rows_per_sentence, axis=0)

        def add_token(step, rows, state):
            found, new_state = step_fn(rows.tokens, step, state)
            found = as_next_token(found)
            if self.constraint is not None:
                found = self.constraint.restrict(found, rows.ids, step, rows.constraint)
            chosen_N, log_probs_N = self.choose(found, step)
            tokens_N = ops.where(rows.active, chosen_N, PAD_ID)  # finished rows get padding at no cost
            ended_N = ops.logical_or(ops.equal(tokens_N, EOS_ID), step + 1 >= limits_N)
            gained_N = ops.where(rows.active, log_probs_N, 0.0)
            states_NS = rows.constraint
            if self.constraint is not None:
                states_NS = restore_shapes(self.constraint.advance(states_NS, tokens_N), like=states_NS)
            rows = _Rows(
                ids=write_column(rows.ids, step, tokens_N),
                tokens=tokens_N,
                log_probs=ops.maximum(rows.log_probs + gained_N, NO_HYPOTHESIS),
                lengths=rows.lengths + ops.cast(rows.active, "int32"),
                active=ops.logical_and(rows.active, ops.logical_not(ended_N)),
                constraint=states_NS,
            )
            return TokenByTokenProgress(step + 1, rows, restore_shapes(new_state, like=state))

        return advance_while_active(self.active_sentences, add_token, progress, until, min_active)

    def widen(self, progress: TokenByTokenProgress, width: Any) -> TokenByTokenProgress:
        """Pads the outputs to `width` tokens."""
        return progress._replace(rows=progress.rows._replace(ids=pad_to_width(progress.rows.ids, width)))

    def result(self, progress: TokenByTokenProgress) -> SearchResult:
        """Returns the hypotheses, those of a sentence in the order of their rows."""
        rows = progress.rows
        scores_N = rows.log_probs / self.penalty(ops.cast(rows.lengths, "float32"))
        ends_N = ops.any(ops.equal(rows.ids, EOS_ID), axis=1)
        log_probs_N = rows.log_probs + self.eos_penalty * ops.cast(ends_N, "float32")
        fields = (rows.ids, scores_N, log_probs_N, rows.lengths)
        first_axes = (ops.shape(self.limits)[0], self.rows_per_sentence)
        return SearchResult(*(ops.reshape(field, (*first_axes, *ops.shape(field)[1:])) for field in fields))


def _values_at(values: Any, indices: Any) -> Any:
    """(N, V) at (N,) int32 -> (N,)."""
    return ops.take_along_axis(values, ops.expand_dims(indices, 1), axis=-1)[:, 0]


_ROTATIONS = ((13, 15, 26, 6), (17, 29, 16, 24))
_PARITY = 0x1BD11BDA
_ROUNDS = 20


def threefry_2x32(key: tuple[Any, Any], counter: tuple[Any, Any]) -> tuple[Any, Any]:
    """Threefry-2x32 with 20 rounds: Salmon et al. 2011 (Parallel random numbers: as easy as 1, 2, 3), section 3.3.

    Args:
        key: two uint32 tensors of shapes that broadcast.
        counter: two uint32 tensors of shapes that broadcast.

    Returns:
        Two uint32 tensors of random bits.
    """
    parity = ops.bitwise_xor(ops.bitwise_xor(key[0], key[1]), _word(_PARITY))
    keys = (key[0], key[1], parity)
    x, y = counter[0] + keys[0], counter[1] + keys[1]
    for group in range(_ROUNDS // 4):
        for distance in _ROTATIONS[group % 2]:
            x = x + y
            y = ops.bitwise_xor(x, _rotate_left(y, distance))
        x = x + keys[(group + 1) % 3]
        y = y + keys[(group + 2) % 3] + _word(group + 1)
    return x, y


def uniform(seed: Any, row_seeds: Any, position: Any, draw: Any) -> Any:
    """Returns a number in [0, 1) for each row, a function of the four arguments.

    Args:
        seed: () or (N,) integer, of which the lower 32 bits are used.
        row_seeds: (N,) int32, identifies the sentence.
        position: () int32, number of the token.
        draw: (N,) int32, number of the sample of that sentence.

    Returns:
        (N,) float32, multiples of 2^-24.
    """
    bits_N, _ = threefry_2x32((_word(seed), _word(row_seeds)), (_word(position), _word(draw)))
    return ops.cast(ops.cast(ops.right_shift(bits_N, 8), "int32"), "float32") * 2.0**-24


def _word(value: Any) -> Any:
    if isinstance(value, int):
        return ops.convert_to_tensor(value % 2**32, dtype="uint32")
    return ops.cast(value, "uint32")


def _rotate_left(word: Any, distance: int) -> Any:
    return ops.bitwise_or(ops.left_shift(word, distance), ops.right_shift(word, 32 - distance))
