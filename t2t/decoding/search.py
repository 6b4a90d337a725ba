"""The settings of a search, and the search that they ask for.

Legend: B sentences, K hypotheses of each, V vocabulary.
"""

import dataclasses
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
from t2t.decoding.step import NextToken
from t2t.errors import UserError
from t2t.layers.beams import reorder_rows

BEAM, GREEDY, SAMPLE = "beam", "greedy", "sample"


@dataclasses.dataclass(frozen=True, kw_only=True)
class SearchSettings:
    """How to search: decode hparams that have been checked, and what a call asks for."""

    method: str = BEAM
    """beam, greedy or sample."""
    beam_size: int = 4
    """Hypotheses kept for each sentence (beam); 1 is greedy search."""
    penalty: str = "gnmt"
    """Length penalty: gnmt, ((5+n)/6)^alpha, or power, n^alpha."""
    alpha: float = 0.6
    """Exponent of the length penalty, from 0 up."""
    coverage: float = 0.0
    """beta of the coverage penalty (beam), from 0 up; 0 for none."""
    min_length: int = 0
    """Tokens before end of sequence may follow."""
    eos_penalty: float = 0.0
    """Subtracted from the log-probability of end of sequence where hypotheses and tokens compete; from 0 up."""
    no_repeat_ngram: int = 0
    """n: no output has an n-gram twice; 0 for any output."""
    stop_early: bool = True
    """Stop a sentence once its best hypothesis is certain (beam); off where an n-best list is wanted."""
    samples: int = 1
    """Texts drawn for each sentence (sample)."""
    temperature: float = 1.0
    """Log-probabilities are divided by it (sample); above 0."""
    top_k: int = 0
    """Draw from the k most probable tokens (sample); 0 for all."""
    top_p: float = 1.0
    """Draw from the smallest set of tokens that holds this probability (sample); 1 for all."""
    seed: int = 0
    """Names the stream of random numbers (sample)."""

    def __post_init__(self):
        if self.top_p <= 0:  # the lower bound of the hparam, which it does not include
            raise UserError(f"top_p {self.top_p}: it must be above 0 and at most 1; 1 draws from all tokens")

    @property
    def rows_per_sentence(self) -> int:
        """K: how often `repeat_for_beams` repeats each sentence."""
        return {BEAM: self.beam_size, GREEDY: 1, SAMPLE: self.samples}[self.method]

    @property
    def uses_beam_search(self) -> bool:
        """Whether hypotheses compete, so that rows are reordered; a beam of 1 is greedy search."""
        return self.method == BEAM and self.beam_size > 1

    @property
    def constrains_output(self) -> bool:
        """Whether some outputs are forbidden or penalised, see `constraint_of`."""
        return self.min_length > 0 or self.eos_penalty > 0 or self.no_repeat_ngram > 0

    @property
    def counts_coverage(self) -> bool:
        """Whether scores have a coverage penalty, so that steps are those of `t2t.decoding.coverage.covering`."""
        return self.uses_beam_search and self.coverage > 0


def rules(
    settings: SearchSettings,
    *,
    vocab_size: int,
    limits: Any,
    sentence_seeds: Any = None,
    reorder: Callable[[Any, Any], Any] = reorder_rows,
    prefix: Any = None,
) -> BeamSearch | RollOut:
    """Returns the search that the settings ask for.

    Args:
        settings: see `SearchSettings`.
        vocab_size: V.
        limits: (B,) int32, at least 1: most tokens of a hypothesis of each sentence, end of sequence included.
        sentence_seeds: (B,) int32, for sampling only, see `t2t.decoding.sampling.sampling_chooser`.
        reorder: gives the beams of a state new places.
        prefix: (N, P) int32, zero padded: what each row begins with, at no cost; None for nothing.
    """
    penalty = PENALTIES[settings.penalty](settings.alpha)
    limiting = (constraint_of(settings, vocab_size, prefix), settings.eos_penalty)
    if settings.uses_beam_search:
        return BeamSearch(settings.beam_size, vocab_size, limits, penalty, settings.stop_early, reorder, *limiting)
    if settings.method == SAMPLE:
        chances = (settings.samples, settings.temperature, settings.top_k, settings.top_p)
        choose = sampling_chooser(settings.seed, sentence_seeds, *chances, vocab_size)
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
        if settings.min_length:
            found = delay_end(found, position, settings.min_length)
        if settings.eos_penalty:
            found = penalise_end(found, settings.eos_penalty)
        if settings.no_repeat_ngram:
            found = forbid_repeats(found, ids_NT, position, settings.no_repeat_ngram, vocab_size)
        return force_prefix(found, prefix, position)

    return constraint
