"""Beam search with a finished set: Wu et al. 2016 (arXiv:1609.08144), section 7.

A hypothesis has a log-probability, the sum over its tokens, and a length n, its tokens with end of sequence counted.

* The unfinished hypotheses of a sentence have one length and compete by log-probability: of the 2K best continuations,
  at most K end, so that K continue.
* A continuation is complete when it adds end of sequence or reaches its sentence's limit. All complete ones compete for
  the K places of the finished set by log-probability / penalty(n), plus the coverage penalty where there is one, so
  that every sentence has a result.
* A sentence stops early when no unfinished hypothesis can enter the result any more, see `is_done`.

Ties go to the hypothesis finished first, then to the lower beam, then to the lower token: results are reproducible.
The result of a sentence that has stopped does not depend on the rest of the batch.

With forced phrases, beams are allocated dynamically: Post and Vilar 2018 (aclanthology.org/N18-1119), section 4.
Hypotheses with more of the forced phrases are less probable, and would lose against those that postpone them. So
hypotheses that still need the same number of ids form a bank, and the K slots are divided evenly among banks; slots
that a bank cannot fill go to the others. The candidates are the best continuations of each hypothesis, and all that
continue a phrase.

Legend: B sentences, K beams, N = B * K rows, V vocabulary, T longest allowed length, J best continuations of a row,
F ids of phrases, C candidates of a sentence (2K without banks), M banks.
"""

import functools
from collections.abc import Callable
from typing import Any, NamedTuple

import keras
from keras import ops

from t2t.layers.beams import gather_beams, reorder_rows
from t2t.search.automata import PhraseAutomaton, PhraseEdges
from t2t.search.constraints import Constraint
from t2t.search.result import NO_HYPOTHESIS, LengthPenalty, SearchResult, exists
from t2t.search.step import (
    Candidates,
    NextToken,
    StepFn,
    advance_while_active,
    as_next_token,
    as_tensors,
    best_log_probs,
    best_over_beams,
    pad_to_width,
    restore_shapes,
    top_k,
    write_column,
)
from t2t.specs import EOS_ID, PAD_ID

MOST_BANKS = 64
"""Number of banks; the last one is for all hypotheses that still need MOST_BANKS - 1 ids or more."""


def expand_all(log_probs_BK: Any, found: NextToken, vocab_size: int, phrases: PhraseEdges) -> tuple[Candidates, Any]:
    """Returns the best continuations of every hypothesis, and all of phrases, best first: C = K * (2K + F).

    Args:
        log_probs_BK: float32, of the hypotheses.
        found: log-probabilities of all tokens.
        vocab_size: V.
        phrases: of each row.

    Returns:
        The candidates, and the bank of each, (B, C) int32.
    """
    ids_NF, banks_NF = phrases.ids, phrases.banks
    beam_size = log_probs_BK.shape[1]
    best_NJ, tokens_NJ = best_log_probs(found, vocab_size, 2 * beam_size)
    is_best_NFJ = ops.equal(ids_NF[:, :, None], tokens_NJ[:, None, :])
    banks_NJ = ops.where(
        ops.any(is_best_NFJ, axis=1),
        ops.sum(ops.where(is_best_NFJ, banks_NF[:, :, None], 0), axis=1),
        phrases.other_banks[:, None],
    )
    more_NF = ops.take_along_axis(found.scores, ops.maximum(ids_NF, 0), axis=1)
    is_new_NF = ops.logical_not(ops.any(is_best_NFJ, axis=2))
    more_NF = ops.where(ops.logical_and(ids_NF >= 0, is_new_NF), more_NF, -float("inf"))
    totals_N = ops.concatenate([best_NJ, more_NF], axis=1) + ops.reshape(log_probs_BK, (-1, 1))
    totals_BC = ops.reshape(ops.maximum(totals_N, NO_HYPOTHESIS), (ops.shape(log_probs_BK)[0], -1))
    tokens_BC = ops.reshape(ops.concatenate([tokens_NJ, ids_NF], axis=1), ops.shape(totals_BC))
    banks_BC = ops.reshape(ops.concatenate([banks_NJ, banks_NF], axis=1), ops.shape(totals_BC))
    count = ops.shape(totals_BC)[1]
    log_probs_BC, places_BC = top_k(totals_BC, count)
    tokens_BC, banks_BC = gather_beams(tokens_BC, places_BC), gather_beams(banks_BC, places_BC)
    return Candidates(log_probs_BC, places_BC // (count // beam_size), tokens_BC), banks_BC


def keep_best(candidates: Candidates, count: int, of_all: Any) -> Candidates:
    """Keeps the first `count` candidates, or all of the sentences where `of_all`, (B,) bool, is True.

    So the search of a sentence without forced phrases is the same in every batch.
    """
    order_C = ops.arange(ops.shape(candidates.log_probs)[1], dtype="int32")
    kept_BC = ops.logical_or(of_all[:, None], order_C[None, :] < count)
    return candidates._replace(log_probs=ops.where(kept_BC, candidates.log_probs, NO_HYPOTHESIS))


def places_by_bank(log_probs_BC: Any, banks_BC: Any, beam_size: int) -> Any:
    """Returns the indices of the K candidates to continue, (B, K) int32, best first: ascending, empty ones last.

    Takes the best of each bank, then the second of each, and so on.

    Args:
        log_probs_BC: float32, best first, with NO_HYPOTHESIS anywhere between for empty candidates.
        banks_BC: int32, ids that each still needs: its bank.
        beam_size: K.
    """
    count = ops.shape(log_probs_BC)[1]
    exists_BC = exists(log_probs_BC)
    in_bank_BCM = ops.one_hot(ops.minimum(banks_BC, MOST_BANKS - 1), MOST_BANKS, dtype="int32")
    in_bank_BCM = ops.where(exists_BC[:, :, None], in_bank_BCM, 0)
    # A candidate's rank: the better ones of its bank, which come before it.
    ranks_BC = ops.sum((ops.cumsum(in_bank_BCM, axis=1) - in_bank_BCM) * in_bank_BCM, axis=2)
    ranks_BC = ops.where(exists_BC, ranks_BC, count)
    _, chosen_BK = top_k(-ops.cast(ranks_BC, "float32"), beam_size)  # of equal ranks, the better candidate
    order_C = ops.arange(count, dtype="int32")
    order_BC = ops.where(exists_BC, order_C[None, :], order_C[None, :] + count)
    return ops.sort(gather_beams(order_BC, chosen_BK), axis=1) % count


class ActiveBeams(NamedTuple):
    """Unfinished hypotheses, best first; empty slots have log-probability NO_HYPOTHESIS."""

    ids: Any
    """(B, K, T) int32: tokens so far, zeros after."""
    tokens: Any
    """(B, K) int32: the last token, at first PAD_ID."""
    log_probs: Any
    """(B, K) float32."""
    constraint: Any = ()
    """(B, K, S) int32: the state of the constraint; () where it has none."""


class BeamProgress(NamedTuple):
    """State of an unfinished search; every tensor but `step` has sentences, or their beams, as its first axis."""

    step: Any
    """() int32: tokens so far."""
    active: ActiveBeams
    finished: SearchResult
    state: Any


class BeamSearch(NamedTuple):
    """Beam search, independent of the model: start, advance, result."""

    beam_size: int
    vocab_size: int
    limits: Any
    """(B,) int32: most tokens of a hypothesis of each sentence, end of sequence included, at least 1."""
    penalty: LengthPenalty
    only_best: bool = True
    """Only the best hypothesis is wanted, see `is_done`."""
    reorder: Callable[[Any, Any], Any] = reorder_rows
    """Reorders the beams of a state, see `t2t.layers.beams.reorder_rows`."""
    constraint: Constraint | None = None
    """What may be written next; None for anything."""
    eos_penalty: float = 0.0
    """Subtracted by the constraint at end of sequence; it lowers scores, not the log-probabilities of the result."""

    def start(self, state: Any, width: Any) -> BeamProgress:
        """Returns the initial state of a search, with room for `width` T tokens.

        `state` is that of the step function, every tensor with N or B as its first axis.
        """
        batch_size = ops.shape(self.limits)[0]
        none_BK = ops.full((batch_size, self.beam_size), NO_HYPOTHESIS, "float32")
        return BeamProgress(
            ops.zeros((), "int32"),
            initial_beams(batch_size, self.beam_size, width),
            SearchResult(
                ids=ops.zeros((batch_size, self.beam_size, width), "int32"),
                scores=none_BK,
                log_probs=none_BK,
                lengths=ops.zeros((batch_size, self.beam_size), "int32"),
            ),
            as_tensors(state),
        )

    def constrain(self, progress: BeamProgress, states_BS: Any) -> BeamProgress:
        """Sets the first states of the constraint, (B, S) int32, in a search that `start` returned."""
        states_BKS = ops.repeat(ops.expand_dims(states_BS, 1), self.beam_size, axis=1)
        return progress._replace(active=progress.active._replace(constraint=states_BKS))

    def active_sentences(self, progress: BeamProgress) -> Any:
        """Returns which sentences are unfinished, (B,) bool."""
        return ops.any(exists(progress.active.log_probs), axis=1)

    def advance(self, step_fn: StepFn, progress: BeamProgress, until: Any, min_active: Any = 0) -> BeamProgress:
        """Continues until `until` tokens are written or at most `min_active` sentences are unfinished.

        Both are int or () int32; the progress has room for `until` tokens.
        """
        return advance_while_active(
            self.active_sentences, lambda *now: self._add_token(step_fn, *now), progress, until, min_active
        )

    def widen(self, progress: BeamProgress, width: Any) -> BeamProgress:
        """Pads the search to `width` tokens, at least the present width."""
        active, finished = progress.active, progress.finished
        return progress._replace(
            active=active._replace(ids=pad_to_width(active.ids, width)),
            finished=finished._replace(ids=pad_to_width(finished.ids, width)),
        )

    def result(self, progress: BeamProgress) -> SearchResult:
        """Returns the finished hypotheses."""
        return progress.finished

    def _add_token(
        self, step_fn: StepFn, step: Any, active: ActiveBeams, finished: SearchResult, state: Any
    ) -> BeamProgress:
        """Extends every hypothesis by one token."""
        found, new_state = step_fn(ops.reshape(active.tokens, (-1,)), step, state)
        found = as_next_token(found)
        if self.constraint is not None:
            ids_NT, states_NS = keras.tree.map_structure(_rows, (active.ids, active.constraint))
            found = self.constraint.restrict(found, ids_NT, step, states_NS)
        candidates, banks_BC = self._candidates(active, found)
        complete_BC = is_complete(candidates.tokens, step, self.limits)
        finished = extend_finished(
            finished, active, candidates, complete_BC, step, self.penalty, found.coverage, self.eos_penalty
        )
        choose = None
        if banks_BC is not None:
            choose = functools.partial(places_by_bank, banks_BC=banks_BC, beam_size=self.beam_size)
        active, beams_BK = extend_active(active, candidates, complete_BC, step, choose)
        if self.constraint is not None:
            states_NS, tokens_N = keras.tree.map_structure(_rows, (active.constraint, active.tokens))
            states_BKS = restore_shapes(self.constraint.advance(states_NS, tokens_N), like=active.constraint)
            active = active._replace(constraint=states_BKS)
        done_B = is_done(active.log_probs, finished.scores, self.limits, self.penalty, self.only_best)
        state = restore_shapes(self.reorder(new_state, beams_BK), like=state)
        return BeamProgress(step + 1, deactivate(active, done_B), finished, state)

    def _candidates(self, active: ActiveBeams, found: NextToken) -> tuple[Candidates, Any]:
        """Returns the continuations that compete, and the bank of each, (B, C) int32; None without banks."""
        automaton = self.constraint.automaton if self.constraint is not None else None
        if not isinstance(automaton, PhraseAutomaton):
            return expand(active.log_probs, found, self.vocab_size), None
        states_NS = _rows(active.constraint)
        candidates, banks_BC = expand_all(active.log_probs, found, self.vocab_size, automaton.phrases(states_NS))
        shared_B = ops.any(ops.reshape(automaton.shared(states_NS), ops.shape(active.tokens)), axis=1)
        return keep_best(candidates, 2 * self.beam_size, of_all=shared_B), banks_BC


def _rows(leaf_BK: Any) -> Any:
    """Returns (N, ...) of (B, K, ...)."""
    shape = ops.shape(leaf_BK)
    return ops.reshape(leaf_BK, (shape[0] * shape[1], *shape[2:]))


def initial_beams(batch_size: Any, beam_size: int, width: Any) -> ActiveBeams:
    """Returns one empty hypothesis per sentence, in beam 0: identical beams would stay identical."""
    only_first = ops.convert_to_tensor([0.0] + [NO_HYPOTHESIS] * (beam_size - 1), dtype="float32")
    return ActiveBeams(
        ids=ops.zeros((batch_size, beam_size, width), "int32"),
        tokens=ops.full((batch_size, beam_size), PAD_ID, "int32"),
        log_probs=ops.broadcast_to(only_first, (batch_size, beam_size)),
    )


def expand(log_probs_BK: Any, found: NextToken, vocab_size: int) -> Candidates:
    """Returns the 2K best continuations of each sentence's hypotheses, at most K * V."""
    beam_size = log_probs_BK.shape[1]
    log_probs_NJ, tokens_NJ = best_log_probs(found, vocab_size, 2 * beam_size)
    totals_NJ = ops.reshape(log_probs_BK, (-1, 1)) + log_probs_NJ
    # The floor gives forbidden tokens (-inf) and empty slots the same finite value.
    return best_over_beams(ops.maximum(totals_NJ, NO_HYPOTHESIS), tokens_NJ, beam_size, 2 * beam_size)


def is_complete(tokens_BC: Any, step: Any, limits_B: Any) -> Any:
    """Returns which candidates are complete, (B, C) bool: their token ends them, or they reach the limit."""
    return ops.logical_or(ops.equal(tokens_BC, EOS_ID), ops.expand_dims(step + 1 >= limits_B, 1))


def extend_active(
    active: ActiveBeams,
    candidates: Candidates,
    complete_BC: Any,
    step: Any,
    choose: Callable[[Any], Any] | None = None,
) -> tuple[ActiveBeams, Any]:
    """Returns K unfinished candidates, best first, and the beam that each continues, (B, K) int32.

    `choose` returns their indices, (B, K) int32, best first; None for the most probable. It gets log-probabilities
    (B, C), best first, with NO_HYPOTHESIS in place of complete candidates, wherever they are.
    """
    beam_size = active.log_probs.shape[1]
    open_BC = ops.where(complete_BC, NO_HYPOTHESIS, candidates.log_probs)
    chosen_BK = top_k(open_BC, beam_size)[1] if choose is None else choose(open_BC)
    log_probs_BK = gather_beams(open_BC, chosen_BK)
    beams_BK = gather_beams(candidates.beams, chosen_BK)
    tokens_BK = gather_beams(candidates.tokens, chosen_BK)
    ids_BKT = write_column(gather_beams(active.ids, beams_BK), step, tokens_BK)
    states_BKS = keras.tree.map_structure(lambda leaf: gather_beams(leaf, beams_BK), active.constraint)
    return ActiveBeams(ids_BKT, tokens_BK, log_probs_BK, states_BKS), beams_BK


def extend_finished(
    finished: SearchResult,
    active: ActiveBeams,
    candidates: Candidates,
    complete_BC: Any,
    step: Any,
    penalty: LengthPenalty,
    coverage_N: Any = None,
    eos_penalty: float = 0.0,
) -> SearchResult:
    """Returns the K best, by score, of the finished hypotheses and the complete candidates of length step + 1.

    `coverage_N` is float32, the coverage penalty of each beam; None for none. `eos_penalty` lowers the scores of
    candidates that end, but not their log-probabilities.
    """
    beam_size = finished.scores.shape[1]
    length = step + 1
    real_BC = ops.logical_and(complete_BC, exists(candidates.log_probs))
    scores_BC = candidates.log_probs / penalty(ops.cast(length, "float32"))
    if coverage_N is not None:
        scores_BC = scores_BC + gather_beams(ops.reshape(coverage_N, (-1, beam_size)), candidates.beams)
    scores_BC = ops.where(real_BC, scores_BC, NO_HYPOTHESIS)
    arrivals = SearchResult(
        ids=write_column(gather_beams(active.ids, candidates.beams), step, candidates.tokens),
        scores=scores_BC,
        log_probs=candidates.log_probs + eos_penalty * ops.cast(ops.equal(candidates.tokens, EOS_ID), "float32"),
        lengths=ops.broadcast_to(length, ops.shape(scores_BC)),
    )
    # Among equal scores empty slots come first, so that a candidate that is not real never takes one.
    pool = SearchResult(*(ops.concatenate(pair, axis=1) for pair in zip(finished, arrivals, strict=True)))
    _, chosen_BK = top_k(pool.scores, beam_size)
    return SearchResult(*(gather_beams(field, chosen_BK) for field in pool))


def is_done(active_log_probs: Any, finished_scores: Any, limits: Any, penalty: LengthPenalty, only_best: bool) -> Any:
    """Returns which sentences cannot improve, (B,) bool: the stop rule.

    Token log-probabilities and coverage penalties are at most 0, and the length penalty does not fall with length, so a
    hypothesis of log-probability a can reach a score of a / penalty(limit) at most. The best unfinished one must beat
    the best finished score (`only_best`), or the worst of K finished scores (else).

    Args:
        active_log_probs: (B, K) float32, best first.
        finished_scores: (B, K) float32, best first.
        limits: (B,) int32.
        penalty: of a length.
        only_best: whether only the best hypothesis is wanted.
    """
    reachable_B = active_log_probs[:, 0] / penalty(ops.cast(limits, "float32"))
    to_beat_B = finished_scores[:, 0] if only_best else finished_scores[:, -1]
    return to_beat_B >= reachable_B


def deactivate(active: ActiveBeams, done: Any) -> ActiveBeams:
    """Ends the unfinished hypotheses of sentences that are done, (B,) bool; their results stay unchanged."""
    return active._replace(log_probs=ops.where(ops.expand_dims(done, 1), NO_HYPOTHESIS, active.log_probs))
