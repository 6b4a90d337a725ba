"""The settings of a search. Does not import Keras.

Legend: K hypotheses of each sentence.
"""

import dataclasses
from typing import Any, NamedTuple

from t2t.errors import UserError
from t2t.hparams.groups import MASK_PREDICT

BEAM, GREEDY, SAMPLE = "beam", "greedy", "sample"
FEW = 128
"""For a `top_k` of at most this, a compiled search sorts only so many tokens, otherwise all."""
_LARGEST = 2**31 - 1
"""Of int32."""


class SearchNumbers(NamedTuple):
    """Settings that may be tensors: one compiled search serves all their values. See `SearchSettings`."""

    alpha: Any
    temperature: Any
    top_k: Any
    top_p: Any
    seed: Any


@dataclasses.dataclass(frozen=True, kw_only=True)
class SearchSettings:
    """How to search: validated decode hparams, and the options of a call."""

    method: str = BEAM
    """beam, greedy, sample or mask_predict."""
    beam_size: int = 4
    """Hypotheses kept for each sentence (beam); 1 is greedy search."""
    penalty: str = "gnmt"
    """Length penalty: gnmt, ((5+n)/6)^alpha, or power, n^alpha."""
    alpha: float = 0.6
    """Exponent of the length penalty, at least 0."""
    coverage: float = 0.0
    """beta of the coverage penalty (beam), at least 0; 0 for none."""
    min_length: int = 0
    """Fewest tokens before end of sequence."""
    eos_penalty: float = 0.0
    """Subtracted from the log-probability of end of sequence where hypotheses and tokens compete; at least 0."""
    no_repeat_ngram: int = 0
    """n: no n-gram occurs twice in an output; 0 for any output."""
    only_best: bool = True
    """Only the best output is wanted, so a sentence stops once it is certain (beam)."""
    samples: int = 1
    """Samples drawn for each sentence (sample)."""
    temperature: float = 1.0
    """Log-probabilities are divided by it (sample); above 0."""
    top_k: int = 0
    """Draw from the k most probable tokens (sample); 0 for all."""
    top_p: float = 1.0
    """Draw from the smallest set of tokens that holds this probability (sample); 1 for all."""
    seed: int = 0
    """Selects the stream of random numbers (sample)."""
    iterations: int = 10
    """Number of times that masked words are predicted (mask_predict)."""
    length_candidates: int = 1
    """Output lengths tried for each sentence (mask_predict)."""
    scored: bool = True
    """Whether the caller reads the probabilities of outputs; otherwise an engine may return NaN."""

    def __post_init__(self):
        if self.top_p <= 0:  # the lower bound of the hparam is inclusive
            raise UserError(f"top_p {self.top_p}: it must be above 0 and at most 1; 1 draws from all tokens")

    @property
    def numbers(self) -> SearchNumbers:
        """The settings that a compiled search takes as tensors."""
        return SearchNumbers(self.alpha, self.temperature, min(self.top_k, _LARGEST), self.top_p, self.seed % 2**32)

    @property
    def structure(self) -> "SearchSettings":
        """The other settings that affect the search, which is compiled once for each value of these."""
        plain = SearchSettings(
            method=self.method,
            penalty=self.penalty,
            beam_size=1,
            min_length=self.min_length,
            eos_penalty=self.eos_penalty,
            no_repeat_ngram=self.no_repeat_ngram,
        )
        if self.uses_beam_search:
            return dataclasses.replace(
                plain, beam_size=self.beam_size, coverage=self.coverage, only_best=self.only_best
            )
        if self.method == MASK_PREDICT:
            return SearchSettings(
                method=self.method, iterations=self.iterations, length_candidates=self.length_candidates
            )
        if self.method == SAMPLE:
            top_k, top_p = self.sorted_tokens, 0.5 if self.top_p < 1 else 1.0
            return dataclasses.replace(plain, samples=self.samples, top_k=top_k, top_p=top_p)
        return plain

    @property
    def sorted_tokens(self) -> int:
        """How many tokens are sorted to find the `top_k` most probable ones: one of three, whatever `top_k`."""
        return 0 if not self.top_k else FEW if self.top_k <= FEW else _LARGEST

    @property
    def rows_per_sentence(self) -> int:
        """K: how often `repeat_for_beams` repeats each sentence."""
        rows = {BEAM: self.beam_size, GREEDY: 1, SAMPLE: self.samples, MASK_PREDICT: self.length_candidates}
        return rows[self.method]

    @property
    def uses_beam_search(self) -> bool:
        """Whether hypotheses compete, so that rows are reordered; a beam of 1 is greedy search."""
        return self.method == BEAM and self.beam_size > 1

    @property
    def constrains_output(self) -> bool:
        """Whether some outputs are forbidden or penalised."""
        return self.min_length > 0 or self.eos_penalty > 0 or self.no_repeat_ngram > 0

    @property
    def counts_coverage(self) -> bool:
        """Whether scores have a coverage penalty, so that steps are those of `t2t.search.coverage.covering`."""
        return self.uses_beam_search and self.coverage > 0
