"""The search that settings ask for.

Legend: B sentences, K hypotheses of each, V vocabulary.
"""

from collections.abc import Callable
from typing import Any

from t2t.decoding.beam_search import BeamSearch
from t2t.decoding.penalties import PENALTIES
from t2t.decoding.sampling import RollOut, greedy_chooser, sampling_chooser
from t2t.decoding.settings import SAMPLE, SearchSettings
from t2t.layers.beams import reorder_rows


def rules(
    settings: SearchSettings,
    *,
    vocab_size: int,
    limits: Any,
    sentence_seeds: Any = None,
    reorder: Callable[[Any, Any], Any] = reorder_rows,
) -> BeamSearch | RollOut:
    """Returns the search that the settings ask for.

    Args:
        settings: see `SearchSettings`.
        vocab_size: V.
        limits: (B,) int32, at least 1: most tokens of a hypothesis of each sentence, end of sequence included.
        sentence_seeds: (B,) int32, for sampling only, see `t2t.decoding.sampling.sampling_chooser`.
        reorder: gives the beams of a state new places.
    """
    penalty = PENALTIES[settings.penalty](settings.alpha)
    if settings.uses_beam_search:
        return BeamSearch(settings.beam_size, vocab_size, limits, penalty, settings.stop_early, reorder)
    if settings.method == SAMPLE:
        chances = (settings.samples, settings.temperature, settings.top_k, settings.top_p)
        choose = sampling_chooser(settings.seed, sentence_seeds, *chances, vocab_size)
    else:
        choose = greedy_chooser(vocab_size)
    return RollOut(settings.rows_per_sentence, limits, penalty, choose)
