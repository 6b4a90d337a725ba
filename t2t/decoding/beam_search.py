"""Beam search with a finished set: Wu et al. 2016 (arXiv:1609.08144), section 7.

What is ranked against what. Every hypothesis has a log-probability, the sum over its tokens, and a length n, its
number of tokens with end of sequence counted.

* While they grow, hypotheses of one sentence are all of one length and compete by log-probability: the 2K best
  continuations are looked at, of which at most K can be ends of sequence, so that K go on.
* A continuation is complete when it adds end of sequence, or when it reaches its sentence's limit. Complete ones
  compete for the K places of the finished set by log-probability / penalty(n), whichever way they were completed: one
  that was cut off at the limit, n = limit, ranks beside those that ended by themselves. So every sentence has a result.
* A sentence stops early when no growing hypothesis can enter the result any more, see `settled`.

Ties go to what was finished first, then to the lower beam, then to the lower token, so that results are reproducible. A
sentence that has stopped is frozen: its result does not depend on the other sentences of the batch.

Legend: B sentences, K beams, N = B * K rows, V vocabulary, T longest allowed length, C = 2K candidates.
"""

from typing import Any, NamedTuple

from keras import ops

from t2t.constants import EOS_ID, PAD_ID
from t2t.decoding.penalties import LengthPenalty, gnmt
from t2t.decoding.result import NO_HYPOTHESIS, SearchResult, exists
from t2t.decoding.sampling import greedy
from t2t.decoding.state import as_tensors, gather_beams, reorder_state, with_shapes_of
from t2t.decoding.step import StepFn, check_sizes, row_start_ids, step_limits, write_column
from t2t.decoding.topk import Candidates, top_candidates, top_k


class Alive(NamedTuple):
    """Hypotheses that still grow, best first; places without one have log-probability NO_HYPOTHESIS."""

    ids: Any
    """(B, K, T) int32: tokens so far, zeros after."""
    tokens: Any
    """(B, K) int32: the last token, at first the start id."""
    log_probs: Any
    """(B, K) float32."""


def beam_search(
    step_fn: StepFn,
    state: Any,
    *,
    batch_size: Any,
    beam_size: int,
    vocab_size: int,
    max_steps: Any,
    length_penalty: LengthPenalty | None = None,
    stop_early: bool = True,
    start_ids: Any = PAD_ID,
    eos_id: int = EOS_ID,
    buffer_steps: int | None = None,
) -> SearchResult:
    """Returns the `beam_size` best hypotheses of each sentence, best first.

    Width 1 is greedy search by definition.

    Args:
        step_fn: see `t2t.decoding.step.StepFn`.
        state: its first state; every tensor (N, ...), see `t2t.decoding.state.repeat_for_beams`.
        batch_size: B, int or () int32.
        beam_size: K.
        vocab_size: V, int.
        max_steps: most tokens of a hypothesis, end of sequence included: int, or (B,) int32, one a sentence.
        length_penalty: non-decreasing and positive, see `t2t.decoding.penalties`; default gnmt(0.6).
        stop_early: only the best hypothesis is wanted, so stop as soon as it is certain; the rest of the list may
            then be short of what a full search finds.
        start_ids: first input: one id, or (B,) int32, one a sentence.
        eos_id: id that ends a hypothesis.
        buffer_steps: fixed T for compilers that want it, see `step_limits`.

    Raises:
        UserError: sizes that make no sense.
    """
    check_sizes(rows_per_sentence=beam_size, vocab_size=vocab_size)
    penalty = length_penalty or gnmt(0.6)
    shared = dict(batch_size=batch_size, vocab_size=vocab_size, start_ids=start_ids, eos_id=eos_id)
    if beam_size == 1:
        return greedy(step_fn, state, max_steps=max_steps, length_penalty=penalty, buffer_steps=buffer_steps, **shared)
    limits_B, width = step_limits(max_steps, batch_size, buffer_steps)
    advance = _Advance(step_fn, limits_B, penalty, vocab_size, eos_id, stop_early)

    def unfinished(step, alive, finished, state):
        return ops.logical_and(step < width, ops.any(exists(alive.log_probs)))

    alive = first_alive(row_start_ids(start_ids, batch_size, beam_size), width)
    start = (ops.zeros((), "int32"), alive, nothing_finished(batch_size, beam_size, width), as_tensors(state))
    _, _, finished, _ = ops.while_loop(unfinished, advance, start)
    return finished


class _Advance(NamedTuple):
    """The body of the loop: one more token for every hypothesis."""

    step_fn: StepFn
    limits: Any
    penalty: LengthPenalty
    vocab_size: int
    eos_id: int
    stop_early: bool

    def __call__(self, step: Any, alive: Alive, finished: SearchResult, state: Any) -> tuple:
        log_probs_NV, new_state = self.step_fn(ops.reshape(alive.tokens, (-1,)), step, state)
        candidates = expand(alive.log_probs, log_probs_NV, self.vocab_size)
        complete_BC = is_complete(candidates.tokens, step, self.limits, self.eos_id)
        finished = grow_finished(finished, alive, candidates, complete_BC, step, self.penalty)
        alive, beams_BK = grow_alive(alive, candidates, complete_BC, step)
        done_B = settled(alive.log_probs, finished.scores, self.limits, self.penalty, self.stop_early)
        state = with_shapes_of(reorder_state(new_state, beams_BK), like=state)
        return step + 1, retire(alive, done_B), finished, state


def first_alive(start_ids: Any, width: Any) -> Alive:
    """Returns one empty hypothesis a sentence, in beam 0: equal beams would all grow alike.

    Args:
        start_ids: (B, K) int32.
        width: T.
    """
    batch_size, beam_size = ops.shape(start_ids)
    only_first = ops.convert_to_tensor([0.0] + [NO_HYPOTHESIS] * (beam_size - 1), dtype="float32")
    return Alive(
        ids=ops.zeros((batch_size, beam_size, width), "int32"),
        tokens=start_ids,
        log_probs=ops.broadcast_to(only_first, (batch_size, beam_size)),
    )


def nothing_finished(batch_size: Any, beam_size: int, width: Any) -> SearchResult:
    """Returns a finished set without hypotheses."""
    none_BK = ops.full((batch_size, beam_size), NO_HYPOTHESIS, "float32")
    return SearchResult(
        ids=ops.zeros((batch_size, beam_size, width), "int32"),
        scores=none_BK,
        log_probs=none_BK,
        lengths=ops.zeros((batch_size, beam_size), "int32"),
    )


def expand(alive_log_probs: Any, log_probs: Any, vocab_size: int) -> Candidates:
    """Returns the 2K best continuations of each sentence.

    Args:
        alive_log_probs: (B, K) float32, of the hypotheses so far.
        log_probs: (N, V) float, of the next token.
        vocab_size: V.
    """
    batch_size, beam_size = ops.shape(alive_log_probs)
    log_probs_BKV = ops.reshape(ops.cast(log_probs, "float32"), (batch_size, beam_size, vocab_size))
    totals_BKV = ops.expand_dims(alive_log_probs, 2) + log_probs_BKV
    # The floor keeps forbidden tokens (-inf) and places without a hypothesis at one finite value.
    return top_candidates(ops.maximum(totals_BKV, NO_HYPOTHESIS), 2 * beam_size)


def is_complete(tokens: Any, step: Any, limits: Any, eos_id: int) -> Any:
    """Tells which candidates are whole hypotheses: they end by themselves, or reach the limit.

    Args:
        tokens: (B, C) int32, the token each adds.
        step: () int32, how many tokens came before it.
        limits: (B,) int32.
        eos_id: id that ends a hypothesis.

    Returns:
        (B, C) bool.
    """
    return ops.logical_or(ops.equal(tokens, eos_id), ops.expand_dims(step + 1 >= limits, 1))


def grow_alive(alive: Alive, candidates: Candidates, complete: Any, step: Any) -> tuple[Alive, Any]:
    """Returns the K best candidates that go on, and the beam each of them continues, (B, K) int32.

    Args:
        alive: the hypotheses that were continued.
        candidates: their best continuations.
        complete: (B, C) bool.
        step: () int32, the position that the new tokens take.
    """
    beam_size = alive.log_probs.shape[1]
    open_BC = ops.where(complete, NO_HYPOTHESIS, candidates.log_probs)
    log_probs_BK, chosen_BK = top_k(open_BC, beam_size)
    beams_BK = gather_beams(candidates.beams, chosen_BK)
    tokens_BK = gather_beams(candidates.tokens, chosen_BK)
    ids_BKT = write_column(gather_beams(alive.ids, beams_BK), step, tokens_BK)
    return Alive(ids_BKT, tokens_BK, log_probs_BK), beams_BK


def grow_finished(
    finished: SearchResult, alive: Alive, candidates: Candidates, complete: Any, step: Any, penalty: LengthPenalty
) -> SearchResult:
    """Returns the K best, by normalised score, of the finished hypotheses and the complete candidates.

    Args:
        finished: the K best so far.
        alive: the hypotheses that were continued.
        candidates: their best continuations.
        complete: (B, C) bool.
        step: () int32, the position that the new tokens take.
        penalty: of the length, step + 1.
    """
    beam_size = finished.scores.shape[1]
    length = step + 1
    real_BC = ops.logical_and(complete, exists(candidates.log_probs))
    scores_BC = ops.where(real_BC, candidates.log_probs / penalty(ops.cast(length, "float32")), NO_HYPOTHESIS)
    arrivals = SearchResult(
        ids=write_column(gather_beams(alive.ids, candidates.beams), step, candidates.tokens),
        scores=scores_BC,
        log_probs=candidates.log_probs,
        lengths=ops.broadcast_to(length, ops.shape(scores_BC)),
    )
    # Empty places of the finished set come first among equals, so a candidate that is not real never takes one.
    pool = SearchResult(*(ops.concatenate(pair, axis=1) for pair in zip(finished, arrivals, strict=True)))
    _, chosen_BK = top_k(pool.scores, beam_size)
    return SearchResult(*(gather_beams(field, chosen_BK) for field in pool))


def settled(alive_log_probs: Any, finished_scores: Any, limits: Any, penalty: LengthPenalty, stop_early: bool) -> Any:
    """Tells which sentences cannot improve: the stop rule.

    Token log-probabilities are at most 0 and the penalty does not fall with length, so whatever a growing hypothesis of
    log-probability a becomes, its score is at most a / penalty(limit). Where the best growing one cannot beat the best
    finished score (`stop_early`), or the worst of K finished scores (else), more steps change nothing.

    Args:
        alive_log_probs: (B, K) float32, best first.
        finished_scores: (B, K) float32, best first.
        limits: (B,) int32.
        penalty: of a length.
        stop_early: only the best hypothesis is wanted.

    Returns:
        (B,) bool.
    """
    reachable_B = alive_log_probs[:, 0] / penalty(ops.cast(limits, "float32"))
    to_beat_B = finished_scores[:, 0] if stop_early else finished_scores[:, -1]
    return to_beat_B >= reachable_B


def retire(alive: Alive, done: Any) -> Alive:
    """Ends the growing hypotheses of sentences that are done, (B,) bool; nothing enters their results any more."""
    return alive._replace(log_probs=ops.where(ops.expand_dims(done, 1), NO_HYPOTHESIS, alive.log_probs))
