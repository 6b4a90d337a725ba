"""One door to every way of searching: settings as plain values, one function.

Legend: B sentences, K hypotheses of each, N = B * K rows, T longest allowed length.
"""

import dataclasses
from typing import Any

from t2t.constants import EOS_ID, PAD_ID
from t2t.decoding.beam_search import beam_search
from t2t.decoding.penalties import length_penalty
from t2t.decoding.result import SearchResult
from t2t.decoding.sampling import check_sampling, greedy, sample
from t2t.decoding.step import StepFn, check_sizes
from t2t.errors import UnknownNameError, did_you_mean

BEAM, GREEDY, SAMPLE = "beam", "greedy", "sample"
METHODS = (BEAM, GREEDY, SAMPLE)


@dataclasses.dataclass(frozen=True, kw_only=True)
class SearchSettings:
    """How to search; checked when made, so that a mistake shows before a model is loaded."""

    method: str = BEAM
    """beam, greedy or sample."""
    beam_size: int = 4
    """Hypotheses kept for each sentence (beam); 1 is greedy search."""
    penalty: str = "gnmt"
    """Length penalty: gnmt, ((5+n)/6)^alpha, or power, n^alpha."""
    alpha: float = 0.6
    """Exponent of the length penalty, from 0 up."""
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
        if self.method not in METHODS:
            raise UnknownNameError(
                f"search method {self.method!r} is not known; {did_you_mean(self.method, METHODS)}"
                f"there are {', '.join(METHODS)}"
            )
        check_sizes(rows_per_sentence=self.rows_per_sentence)
        check_sampling(self.temperature, self.top_k, self.top_p)
        length_penalty(self.penalty, self.alpha)

    @property
    def rows_per_sentence(self) -> int:
        """K: how often `repeat_for_beams` repeats each sentence."""
        return {BEAM: self.beam_size, GREEDY: 1, SAMPLE: self.samples}[self.method]


def decode(
    step_fn: StepFn,
    state: Any,
    settings: SearchSettings,
    *,
    batch_size: Any,
    vocab_size: int,
    max_steps: Any,
    sentence_seeds: Any = None,
    start_ids: Any = PAD_ID,
    eos_id: int = EOS_ID,
    buffer_steps: int | None = None,
) -> SearchResult:
    """Searches as the settings say.

    Args:
        step_fn: see `t2t.decoding.step.StepFn`.
        state: its first state; every tensor (N, ...) with N = B * settings.rows_per_sentence.
        settings: how to search.
        batch_size: B, int or () int32.
        vocab_size: V, int.
        max_steps: most tokens of a hypothesis, end of sequence included: int, or (B,) int32, one a sentence.
        sentence_seeds: (B,) int32, for sampling only, see `t2t.decoding.sampling.sample`.
        start_ids: first input: one id, or (B,) int32.
        eos_id: id that ends a hypothesis.
        buffer_steps: fixed T for compilers that want it, see `t2t.decoding.step.step_limits`.

    Returns:
        Hypotheses (B, K, T), scored with the settings' length penalty.
    """
    shared = dict(
        batch_size=batch_size,
        vocab_size=vocab_size,
        max_steps=max_steps,
        length_penalty=length_penalty(settings.penalty, settings.alpha),
        start_ids=start_ids,
        eos_id=eos_id,
        buffer_steps=buffer_steps,
    )
    if settings.method == GREEDY:
        return greedy(step_fn, state, **shared)
    if settings.method == BEAM:
        return beam_search(step_fn, state, beam_size=settings.beam_size, stop_early=settings.stop_early, **shared)
    return sample(
        step_fn,
        state,
        seed=settings.seed,
        sentence_seeds=sentence_seeds,
        samples=settings.samples,
        temperature=settings.temperature,
        top_k=settings.top_k,
        top_p=settings.top_p,
        **shared,
    )
