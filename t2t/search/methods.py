"""The search methods by name, the values of the hparam `decode_method`: what each is compiled for, and what it builds.

A plug-in adds one by a class that derives from `SearchMethod`, or from one of these, and the decorator
`@register_search_method`. Keras is loaded when a search is built.

Legend: B sentences, K hypotheses of each, N = B * K rows, V vocabulary.
"""

import dataclasses
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from t2t.hparams.groups import DecodeHParams
from t2t.registry import SEARCH_METHODS, register_search_method
from t2t.registry.overrides import PluginError, check_overrides, described
from t2t.search.result import PENALTIES, LengthPenalty
from t2t.search.settings import SamplingNumbers, SearchSettings, sampling_numbers

if TYPE_CHECKING:
    from t2t.search.automata import Automaton
    from t2t.search.constraints import Constraint


@dataclasses.dataclass(frozen=True, kw_only=True)
class SearchTask:
    """The sentences of a batch, as a search needs to know them."""

    settings: SearchSettings
    """How to search; of what `alpha` and `sampling` have, and `SearchMethod.compiled` leaves out, any values."""
    alpha: Any
    """Exponent of the length penalty, a number or a () tensor."""
    sampling: SamplingNumbers
    """How each sentence is sampled, (B,), or (1,) for all."""
    vocab_size: int
    """V."""
    limits: Any
    """(B,) int32, at least 1: most tokens of a hypothesis of each sentence, end of sequence included."""
    seeds: Any
    """(B,) int32, the sampling seed of each sentence."""
    reorder: Callable[[Any, Any], Any]
    """Reorders the beams of a state, see `t2t.layers.beams.reorder_rows`."""
    constraint: "Constraint | None"
    """What may be written next; None for anything."""

    @property
    def penalty(self) -> LengthPenalty:
        """The length penalty."""
        return PENALTIES[self.settings.penalty](self.alpha)


class SearchMethod(ABC):
    """How outputs are searched. It has no state: an object of it is made wherever one is needed."""

    token_by_token = True
    """Whether it serves models that write one token after the other, as all but `mask_predict`."""
    more = "raise beam_size"
    """What gives more hypotheses for each sentence, for messages."""

    def __init_subclass__(cls) -> None:
        check_overrides(cls)

    def samples(self, n_best: int, hparams: DecodeHParams) -> int:
        """Returns how many outputs of each sentence it samples: the setting `samples`."""
        return 1

    @abstractmethod
    def rows(self, settings: SearchSettings) -> int:
        """Returns K, the hypotheses of each sentence."""

    def competes(self, settings: SearchSettings) -> bool:
        """Returns whether the hypotheses of a sentence compete, so that rows are reordered."""
        return False

    def compiled(self, settings: SearchSettings) -> Mapping[str, Any]:
        """Returns the settings, by name, of which each value needs a compiled search of its own.

        The method, the length penalty and the constraints of the settings are among them anyway.
        """
        names = ("beam_size", "coverage", "only_best", "samples", "top_k", "top_p")
        return {name: getattr(settings, name) for name in names}

    @abstractmethod
    def search(self, task: SearchTask) -> Any:
        """Returns the search: an object with the methods of `t2t.search.beam_search.BeamSearch`."""


@register_search_method
class Beam(SearchMethod):
    """Beam search: hypotheses compete, with a length and a coverage penalty (Wu et al. 2016, arXiv:1609.08144)."""

    def rows(self, settings: SearchSettings) -> int:
        """See the base class."""
        return settings.beam_size

    def competes(self, settings: SearchSettings) -> bool:
        """See the base class; a beam of 1 is greedy search."""
        return settings.beam_size > 1

    def compiled(self, settings: SearchSettings) -> Mapping[str, Any]:
        """See the base class."""
        names = ("beam_size", "coverage", "only_best") if self.competes(settings) else ()
        return {name: getattr(settings, name) for name in names}

    def search(self, task: SearchTask) -> Any:
        """See the base class."""
        from t2t.search.beam_search import BeamSearch

        settings = task.settings
        if not self.competes(settings):
            return Greedy().search(task)
        return BeamSearch(
            settings.beam_size, task.vocab_size, task.limits, task.penalty, settings.only_best, task.reorder,
            task.constraint, settings.eos_penalty,
        )  # fmt: skip


@register_search_method
class Greedy(SearchMethod):
    """Greedy search: the most probable token at each step."""

    more = "search with decode_method=beam"

    def rows(self, settings: SearchSettings) -> int:
        """See the base class."""
        return 1

    def compiled(self, settings: SearchSettings) -> Mapping[str, Any]:
        """See the base class."""
        return {}

    def search(self, task: SearchTask) -> Any:
        """See the base class."""
        from t2t.search.sampling import TokenByToken, greedy_chooser

        choose = greedy_chooser(task.vocab_size)
        return TokenByToken(1, task.limits, task.penalty, choose, task.constraint, task.settings.eos_penalty)


@register_search_method
class Sample(SearchMethod):
    """Sampling, by a seed, from all tokens, the most probable ones or a nucleus."""

    def samples(self, n_best: int, hparams: DecodeHParams) -> int:
        """See the base class."""
        return max(n_best, 1)

    def rows(self, settings: SearchSettings) -> int:
        """See the base class."""
        return settings.samples

    def compiled(self, settings: SearchSettings) -> Mapping[str, Any]:
        """See the base class."""
        top_p = 0.5 if settings.top_p < 1 else 1.0
        return {"samples": settings.samples, "top_k": settings.sorted_tokens, "top_p": top_p}

    def search(self, task: SearchTask) -> Any:
        """See the base class."""
        from t2t.search.sampling import TokenByToken, sampling_chooser

        settings = task.settings
        choose = sampling_chooser(
            task.sampling, task.seeds, settings.samples, task.vocab_size,
            most_k=settings.sorted_tokens, uses_top_p=settings.top_p < 1,
        )  # fmt: skip
        return TokenByToken(settings.samples, task.limits, task.penalty, choose, task.constraint, settings.eos_penalty)


@register_search_method
class MaskPredict(SearchMethod):
    """Mask-predict: all tokens at once, then the least probable ones again; of conditional masked language models."""

    token_by_token = False
    more = "raise length_candidates"

    def rows(self, settings: SearchSettings) -> int:
        """See the base class."""
        return settings.length_candidates

    def compiled(self, settings: SearchSettings) -> Mapping[str, Any]:
        """See the base class."""
        return {"iterations": settings.iterations, "length_candidates": settings.length_candidates}

    def search(self, task: SearchTask) -> Any:
        """Not called: the length of an output is decided before its tokens, see `t2t.search.mask_predict`."""
        raise NotImplementedError


def search_of(
    settings: SearchSettings,
    *,
    vocab_size: int,
    limits: Any,
    sentence_seeds: Any = None,
    alpha: Any = None,
    sampling: SamplingNumbers | None = None,
    reorder: Callable[[Any, Any], Any] | None = None,
    prefix: Any = None,
    automaton: "Automaton | None" = None,
) -> Any:
    """Returns the search that the settings describe, see `SearchMethod.search`.

    Args:
        settings: see `SearchSettings`.
        vocab_size: V.
        limits: see `SearchTask`.
        sentence_seeds: see `SearchTask`; for sampling only.
        alpha: () tensor to use instead of that of the settings.
        sampling: how each sentence is sampled; None for how the settings say.
        reorder: reorders the beams of a state; None for `t2t.layers.beams.reorder_rows`.
        prefix: (N, P) int32, zero padded: ids that each row begins with, at log-probability 0; None for nothing.
        automaton: accepts the allowed outputs; None for any. Its first states must be passed to `constrain` of the
            returned search.
    """
    from t2t.layers.beams import reorder_rows
    from t2t.search.constraints import constraint_of

    task = SearchTask(
        settings=settings,
        alpha=settings.alpha if alpha is None else alpha,
        sampling=sampling or sampling_numbers([settings]),
        vocab_size=vocab_size,
        limits=limits,
        seeds=sentence_seeds,
        reorder=reorder or reorder_rows,
        constraint=constraint_of(settings, vocab_size, limits, prefix, automaton),
    )
    method = SEARCH_METHODS.get(settings.method)()
    found = method.search(task)
    if lacking := [name for name in ("start", "advance", "result") if not hasattr(found, name)]:
        raise PluginError(
            f"{described(type(method))}: its search returned {type(found).__name__}, without {', '.join(lacking)}",
            "return an object with the methods of t2t.search.beam_search.BeamSearch",
        )
    return found
