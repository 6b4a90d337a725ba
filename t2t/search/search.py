"""Builds the search that the settings describe.

Legend: B sentences, K hypotheses of each, V vocabulary.
"""

from collections.abc import Callable
from typing import Any

from t2t.layers.tensors import reorder_rows
from t2t.search.beam_search import BeamSearch
from t2t.search.constraints.automaton import Automaton
from t2t.search.constraints.constraint import constraint_of
from t2t.search.penalties import PENALTIES
from t2t.search.sampling import TokenByToken, greedy_chooser, sampling_chooser
from t2t.search.settings import SAMPLE, SearchNumbers, SearchSettings


def search_of(
    settings: SearchSettings,
    *,
    vocab_size: int,
    limits: Any,
    sentence_seeds: Any = None,
    numbers: SearchNumbers | None = None,
    reorder: Callable[[Any, Any], Any] = reorder_rows,
    prefix: Any = None,
    automaton: Automaton | None = None,
) -> BeamSearch | TokenByToken:
    """Returns the search that the settings describe.

    Args:
        settings: see `SearchSettings`.
        vocab_size: V.
        limits: (B,) int32, at least 1: most tokens of a hypothesis of each sentence, end of sequence included.
        sentence_seeds: (B,) int32, for sampling only, see `t2t.search.sampling.sampling_chooser`.
        numbers: () tensors to use instead of those of the settings.
        reorder: reorders the beams of a state.
        prefix: (N, P) int32, zero padded: ids that each row begins with, at log-probability 0; None for nothing.
        automaton: accepts the allowed outputs; None for any. Its first states must be passed to `constrain` of the
            returned search.
    """
    numbers = numbers or settings.numbers
    penalty = PENALTIES[settings.penalty](numbers.alpha)
    limiting = (constraint_of(settings, vocab_size, limits, prefix, automaton), settings.eos_penalty)
    if settings.uses_beam_search:
        return BeamSearch(settings.beam_size, vocab_size, limits, penalty, settings.only_best, reorder, *limiting)
    if settings.method == SAMPLE:
        top_k, top_p = numbers.top_k if settings.top_k else 0, numbers.top_p if settings.top_p < 1 else 1.0
        chances = (settings.samples, numbers.temperature, top_k, top_p)
        choose = sampling_chooser(numbers.seed, sentence_seeds, *chances, vocab_size, settings.sorted_tokens)
    else:
        choose = greedy_chooser(vocab_size)
    return TokenByToken(settings.rows_per_sentence, limits, penalty, choose, *limiting)
