"""The settings of a search, from decode hparams and the changes of a call. Does not import Keras.

Legend: B sentences, K hypotheses of each.
"""

import dataclasses
import functools
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from t2t.errors import ArgumentError, UnknownArgumentError, UserError
from t2t.hparams.field import coerce, complaint
from t2t.hparams.groups import DecodeHParams
from t2t.hparams.override import did_you_mean
from t2t.registry import SEARCH_METHODS

BEAM, GREEDY, SAMPLE = "beam", "greedy", "sample"
FEW = 128
"""For a `top_k` of at most this, a compiled search sorts only so many tokens, otherwise all."""
_LARGEST = 2**31 - 1
"""Of int32."""
SEED = "seed"
"""Name of the seed of sampling among the changes of a search."""
SAMPLING_CHANGES = ("sampling_temperature", "sampling_top_k", "sampling_top_p", SEED)
"""Names of the changes that `SamplingNumbers` has."""


class SamplingNumbers(NamedTuple):
    """How sentences are sampled, (B,) each: one compiled search serves all values. See `SearchSettings`."""

    temperature: Any
    """float32."""
    top_k: Any
    """int32."""
    top_p: Any
    """float32."""
    seed: Any
    """uint32."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class SearchSettings:
    """How to search: validated decode hparams, and the options of a call."""

    method: str = BEAM
    """A registered search method, see `t2t.search.methods`."""
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
            raise UserError(f"top_p {self.top_p}: it must be above 0 and at most 1", "1 draws from all tokens")

    @functools.cached_property
    def structure(self) -> "SearchSettings":
        """The settings that a search is compiled for; it takes alpha and `sampling_numbers` as tensors."""
        plain = SearchSettings(
            method=self.method,
            penalty=self.penalty,
            beam_size=1,
            min_length=self.min_length,
            eos_penalty=self.eos_penalty,
            no_repeat_ngram=self.no_repeat_ngram,
        )
        return dataclasses.replace(plain, **self._method.compiled(self))

    @functools.cached_property
    def _method(self) -> Any:
        """The `SearchMethod`."""
        return SEARCH_METHODS.get(self.method)()

    @property
    def sorted_tokens(self) -> int:
        """How many tokens are sorted to find the `top_k` most probable ones: one of three, whatever `top_k`."""
        return 0 if not self.top_k else FEW if self.top_k <= FEW else _LARGEST

    @functools.cached_property
    def rows_per_sentence(self) -> int:
        """K: how often `repeat_for_beams` repeats each sentence."""
        return self._method.rows(self)

    @functools.cached_property
    def uses_beam_search(self) -> bool:
        """Whether hypotheses compete, so that rows are reordered; a beam of 1 is greedy search."""
        return self._method.competes(self)

    @property
    def constrains_output(self) -> bool:
        """Whether some outputs are forbidden or penalised."""
        return self.min_length > 0 or self.eos_penalty > 0 or self.no_repeat_ngram > 0

    @property
    def counts_coverage(self) -> bool:
        """Whether scores have a coverage penalty, so that steps are those of `t2t.search.coverage.covering`."""
        return self.uses_beam_search and self.coverage > 0


def sampling_numbers(settings: Sequence[SearchSettings]) -> SamplingNumbers:
    """Returns how sentences with these settings are sampled, as numpy arrays; what is too large becomes infinity."""
    values = [(one.temperature, min(one.top_k, _LARGEST), one.top_p, one.seed % 2**32) for one in settings]
    dtypes = ("float32", "int32", "float32", "uint32")
    with np.errstate(over="ignore"):
        arrays = (np.array(column, dtype) for column, dtype in zip(zip(*values, strict=True), dtypes, strict=True))
        return SamplingNumbers(*arrays)


def search_settings(
    hparams: DecodeHParams, n_best: int, seed: int, changes: Mapping[str, Any], at_once: int | None = None
) -> tuple[SearchSettings, DecodeHParams]:
    """Returns the search settings, and the hparams with the changes applied.

    Args:
        hparams: of the run.
        n_best: number of hypotheses for each input.
        seed: of sampling.
        changes: fields of the hparams to change.
        at_once: maximum hypotheses of a model that predicts in one pass, which ignores search settings; else None.

    Raises:
        UserError: a change is unknown or out of bounds, or the search has fewer hypotheses.
    """
    own_method = hparams.decode_method
    if changes:
        hparams = dataclasses.replace(hparams, **_checked(changes))
    for name, number in (("n_best", n_best), ("seed", seed)):
        check_whole_number(name, number)
    if at_once is not None:
        if not 1 <= n_best <= at_once:
            there_are = f"from 1 to {at_once}" if at_once > 1 else "1"
            raise ArgumentError(
                f"a model that answers at once gives {there_are} here", "ask for that", option="n_best", value=n_best
            )
        # Nothing is searched: the settings depend on `n_best` alone.
        settings = SearchSettings(method=BEAM if n_best > 1 else GREEDY, beam_size=n_best, alpha=0.0)
        return settings, dataclasses.replace(hparams, extra_length=0)
    method, own = (SEARCH_METHODS.get(name)() for name in (hparams.decode_method, own_method))
    if not (method.token_by_token and own.token_by_token):
        if hparams.decode_method != own_method:
            how = "one token after the other" if own.token_by_token else "all tokens of an output at once"
            raise UserError(
                f"the model predicts {how}", "leave it out", hparam="decode_method", value=hparams.decode_method
            )
        check_read(hparams, changes)  # mask-predict ignores most settings
    settings = SearchSettings(
        method=GREEDY if hparams.decode_method == BEAM and hparams.beam_size == 1 else hparams.decode_method,
        beam_size=hparams.beam_size,
        penalty=hparams.length_penalty,
        alpha=hparams.alpha,
        coverage=hparams.coverage_penalty,
        min_length=hparams.min_output_length,
        eos_penalty=hparams.eos_penalty,
        no_repeat_ngram=hparams.no_repeat_ngram_size,
        only_best=n_best == 1,
        samples=method.samples(n_best, hparams),
        temperature=hparams.sampling_temperature,
        top_k=hparams.sampling_top_k,
        top_p=hparams.sampling_top_p,
        seed=seed,
        iterations=hparams.mask_predict_iterations,
        length_candidates=hparams.length_candidates,
    )
    _check_n_best(n_best, settings, method.more)
    return settings, hparams


def check_whole_number(name: str, number: Any) -> None:
    """Raises ArgumentError unless the argument `name` is a whole number."""
    if not isinstance(number, int | np.integer) or isinstance(number, bool):
        raise ArgumentError(f"it is of type {type(number).__name__}", "give a whole number", option=name, value=number)


def _check_n_best(n_best: int, settings: SearchSettings, cure: str) -> None:
    """Raises UserError if a search has fewer hypotheses than are asked for; `cure` is what gives more."""
    width = settings.rows_per_sentence
    if 1 <= n_best <= width:
        return
    if n_best < 1:
        raise ArgumentError("a search has one hypothesis or more", "ask for 1 or more", option="n_best", value=n_best)
    there_are = f"search of width {width} has from 1 to {width} hypotheses; ask for that many"
    if width == 1:
        there_are = "search has one hypothesis; ask for that one"
    raise ArgumentError(f"{settings.method} {there_are} or {cure}", option="n_best", value=n_best)


def _checked(changes: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the changes as values of their fields' types; raises UserError for wrong names, types or bounds."""
    fields = {field.name: field for field in dataclasses.fields(DecodeHParams)}
    for name in changes:
        if name not in fields:
            raise UnknownArgumentError(
                f"decode hparam {name!r} does not exist", f"{did_you_mean(name, fields)}there are {', '.join(fields)}"
            )
    checked = {name: coerce(fields[name], value) for name, value in changes.items()}
    wrong = [text for name, value in checked.items() if (text := complaint(fields[name], value))]
    if wrong:
        raise UserError("; ".join(wrong))
    return checked


def check_read(hparams: DecodeHParams, changes: Mapping[str, Any]) -> None:
    """Raises UserError for a change that the method of decoding does not read."""
    conditions = {field.name: field.metadata["used_when"] for field in dataclasses.fields(DecodeHParams)}
    conditions[SEED] = conditions["sampling_temperature"]
    for name, value in changes.items():
        if (condition := conditions[name]) and not condition.holds(hparams):
            raise UserError(
                f"{name}={value}: nothing reads it while {condition.field}={getattr(hparams, condition.field)}",
                f"it is read with {condition}",
            )
