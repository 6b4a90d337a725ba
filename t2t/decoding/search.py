"""The search that settings ask for.

Legend: B sentences, K hypotheses of each, V vocabulary.
"""

from collections.abc import Callable
from typing import Any

from t2t.decoding.beam_search import BeamSearch
from t2t.decoding.constraints import (
    Constraint,
    as_log_probs,
    delay_end,
    forbid_repeats,
    force_prefix,
    penalise_end,
)
from t2t.decoding.penalties import PENALTIES
from t2t.decoding.sampling import RollOut, greedy_chooser, sampling_chooser
from t2t.decoding.settings import SAMPLE, SearchNumbers, SearchSettings
from t2t.decoding.step import NextToken
from t2t.layers.beams import reorder_rows


def rules(
    settings: SearchSettings,
    *,
    vocab_size: int,
    limits: Any,
    sentence_seeds: Any = None,
    numbers: SearchNumbers | None = None,
    reorder: Callable[[Any, Any], Any] = reorder_rows,
    prefix: Any = None,
) -> BeamSearch | RollOut:
    """Returns the search that the settings ask for.

    Args:
        settings: see `SearchSettings`.
        vocab_size: V.
        limits: (B,) int32, at least 1: most tokens of a hypothesis of each sentence, end of sequence included.
        sentence_seeds: (B,) int32, for sampling only, see `t2t.decoding.sampling.sampling_chooser`.
        numbers: () tensors to use instead of those of the settings.
        reorder: gives the beams of a state new places.
        prefix: (N, P) int32, zero padded: what each row begins with, at no cost; None for nothing.
    """
    numbers = numbers or settings.numbers
    penalty = PENALTIES[settings.penalty](numbers.alpha)
    limiting = (constraint_of(settings, vocab_size, prefix), settings.eos_penalty)
    if settings.uses_beam_search:
        return BeamSearch(settings.beam_size, vocab_size, limits, penalty, settings.stop_early, reorder, *limiting)
    if settings.method == SAMPLE:
        top_p = numbers.top_p if settings.top_p < 1 else 1.0
        chances = (settings.samples, numbers.temperature, settings.top_k, top_p)
        choose = sampling_chooser(numbers.seed, sentence_seeds, *chances, vocab_size)
    else:
        choose = greedy_chooser(vocab_size)
    return RollOut(settings.rows_per_sentence, limits, penalty, choose, *limiting)


def constraint_of(settings: SearchSettings, vocab_size: int, prefix: Any = None) -> Constraint | None:
    """Returns what the settings forbid and penalise, and what a prefix prescribes whatever they say; see `rules`.

    None where anything may be written.
    """
    if prefix is None and not settings.constrains_output:
        return None

    def constraint(found: NextToken, ids_NT: Any, position: Any) -> NextToken:
        if settings.constrains_output:
            found = as_log_probs(found, vocab_size)
        if settings.eos_penalty:
            found = penalise_end(found, settings.eos_penalty)
        if settings.no_repeat_ngram:
            found = forbid_repeats(found, ids_NT, position, settings.no_repeat_ngram, vocab_size)
        if settings.min_length:  # last of these: where nothing else may be written, an output ends
            found = delay_end(found, position, settings.min_length)
        return force_prefix(found, prefix, position)

    return constraint
