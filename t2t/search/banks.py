"""Dynamic beam allocation: divides the beam among hypotheses by how many forced ids they still need.

Post and Vilar 2018 (aclanthology.org/N18-1119), section 4. Hypotheses with more of the forced phrases are less
probable, and would lose against those that postpone them. So hypotheses that still need the same number of ids form a
bank, and the K slots are divided evenly among banks; slots that a bank cannot fill go to the others. The candidates
are the best continuations of each hypothesis, and all that continue a phrase.

Legend: B sentences, K beams, N = B * K rows, V vocabulary, J best continuations of a row, F ids of phrases,
C candidates of a sentence, M banks.
"""

from typing import Any

from keras import ops

from t2t.layers.tensors import gather_beams
from t2t.search.constraints.finite_automaton import PhraseEdges
from t2t.search.result import NO_HYPOTHESIS, exists
from t2t.search.step import NextToken, best_log_probs
from t2t.search.topk import Candidates, top_k

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
