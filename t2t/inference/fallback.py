"""Decodes with a fast engine what it supports and answers as the model itself; the model decodes the rest.

Two questions are apart. Whether both compute the same network: the log-probabilities of all tokens of given outputs are
equal up to rounding, also for random ids, long inputs and rows that are padded; another mask, activation or epsilon is
seen there. Whether both search equally well: the fast engine's outputs are those of the model, or as probable but for a
near tie. The model answers once; its answers are kept, so that later comparisons need only the fast engine.
"""

import dataclasses
import functools
import logging
import threading
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from t2t.hparams.groups import DecodeHParams
from t2t.inference.ctranslate2.cache import Agreement, Answers, ConversionCache, Ids, Questions, Reference
from t2t.inference.engine import BatchHypotheses, DecodeRequest, Engine
from t2t.inference.rows import Row
from t2t.search.settings import SearchSettings

log = logging.getLogger("t2t")

NETWORK = "network"
"""Name of the comparison of given outputs, among those of kinds of searches."""

MOST_SEARCHES = 16
"""Maximum number of kinds of searches whose answers are kept, the latest."""

EXTRA_LENGTH = 50
"""By how many ids an output may be longer than its input in comparisons, whatever later requests allow."""

NEAR_TIE = 0.01
"""Fraction of its score by which another output may be worse than the model's and still count as equally good."""
_LEAST_TIE = 1e-3
"""The same as a difference of scores, for outputs that are nearly certain."""


@dataclasses.dataclass(frozen=True)
class Demand:
    """The agreement required for using the fast engine."""

    share: float
    """Of the inputs, with the same output or a near tie."""
    difference: float

    def holds(self, found: Agreement) -> bool:
        """Returns whether answers agree well enough; False for a difference of NaN."""
        return found.identical + found.near_ties >= self.share * found.rows and found.difference <= self.difference


class Judge:
    """Compares a fast engine with the model itself, once for each kind of search.

    Args:
        demand: the agreement required.
        verdicts: where answers and results are kept.
        ask: returns the questions, the first time.
        hparams: of the run; comparisons use its sizes of batches.
        longest_sequence: of the model.
        start: ids that each output begins with.
    """

    def __init__(
        self,
        demand: Demand,
        verdicts: ConversionCache,
        ask: Callable[[], Questions],
        hparams: DecodeHParams,
        longest_sequence: int | None = None,
        start: Sequence[int] = (),
    ):
        self._demand, self._verdicts, self._ask, self._start = demand, verdicts, ask, tuple(start)
        self._of_run, self._longest_sequence = hparams, longest_sequence
        self._found: dict[str, Agreement] = {}
        self._known: Reference | None = None
        self._comparing = threading.RLock()

    @functools.cached_property
    def _hparams(self) -> DecodeHParams:
        """Of comparisons."""
        return dataclasses.replace(self._of_run, shortlist=False, extra_length=EXTRA_LENGTH)

    def disagreement(self, fast: Engine, full: Callable[[], Engine], settings: SearchSettings | None = None) -> str:
        """Returns how the engines differ, in scores of given outputs and, with `settings`, in that search.

        The text is empty if they agree. `full` returns the model's engine, whose start takes seconds; it is called for
        answers that are not kept.
        """
        found = self._compared(f"{fast.name} {NETWORK}", lambda: self._compare_scores(fast, full))
        if settings is not None and self._demand.holds(found):
            kind = " ".join(map(str, (*kind_of_search(settings), *self._start)))
            found = self._compared(f"{fast.name} {kind}", lambda: self._compare_search(fast, full, kind, settings))
        return "" if self._demand.holds(found) else str(found)

    def _compared(self, what: str, compare: Callable[[], Agreement]) -> Agreement:
        if what not in self._found:
            with self._comparing:  # once, however many threads ask
                found = self._found.get(what) or self._verdicts.get(what)
                if found is None:
                    found = compare()
                    self._verdicts.set(what, found)
                    log.info("%s: %s", what, found)
                self._found[what] = found
        return self._found[what]

    def _compare_scores(self, fast: Engine, full: Callable[[], Engine]) -> Agreement:
        questions = self._reference(full).questions
        ours = np.concatenate(self._reference(full).log_probs)
        theirs = np.concatenate(_scores(fast, questions, self._hparams))
        rows, apart = len(questions.targets), float(np.sqrt(np.mean((ours - theirs) ** 2)))
        return Agreement(rows, rows, 0, apart)

    def _compare_search(
        self, fast: Engine, full: Callable[[], Engine], kind: str, settings: SearchSettings
    ) -> Agreement:
        reference = self._reference(full)
        request = self._request(reference.questions.search_rows, settings)
        ours = reference.searches.get(kind)
        if ours is None:
            ours = _best(full().decode(request))
            searches = dict([*reference.searches.items(), (kind, ours)][-MOST_SEARCHES:])
            self._keep(dataclasses.replace(reference, searches=searches))
        return compare_answers(ours, _best(fast.decode(request)))

    def _reference(self, full: Callable[[], Engine]) -> Reference:
        found = self._known or self._verdicts.reference
        if found is None:
            questions = self._ask()
            log.info(
                "comparing with %s on %d inputs, once for this checkpoint", full().name, len(questions.search_rows)
            )
            log_probs = [row.tolist() for row in _scores(full(), questions, self._hparams)]
            self._keep(found := Reference(self._longest_sequence, questions, log_probs))
        self._known = found
        return found

    def _keep(self, reference: Reference) -> None:
        self._known = reference
        self._verdicts.keep_reference(reference)

    def _request(self, rows: Ids, settings: SearchSettings) -> DecodeRequest:
        numbers = np.arange(len(rows))
        return DecodeRequest(
            rows=rows,
            seeds=numbers,
            sentences=numbers,
            settings=dataclasses.replace(settings, scored=True),
            hparams=self._hparams,
            prefixes=[list(self._start)] * len(rows) if self._start else None,
            code_length=len(self._start),
        )


def kind_of_search(settings: SearchSettings) -> tuple[Any, ...]:
    """Returns the settings that tell kinds of searches apart; the engines are compared once for each kind."""
    if not settings.uses_beam_search:
        return (settings.method,)
    return settings.method, settings.beam_size, settings.penalty, settings.alpha


def compare_answers(ours: Answers, theirs: Answers) -> Agreement:
    """Compares the outputs of the model (`ours`) with those of another engine, input by input."""
    identical, near_ties, difference = 0, 0, 0.0
    for row, ids in enumerate(ours.ids):
        if ids == theirs.ids[row]:
            identical += 1
            apart = abs(ours.log_probs[row] - theirs.log_probs[row]) / max(1, len(ids))
            difference = apart if np.isnan(apart) else max(difference, apart)
        else:
            tie = max(_LEAST_TIE, NEAR_TIE * abs(ours.scores[row]))
            near_ties += ours.scores[row] - theirs.scores[row] <= tie
    return Agreement(len(ours.ids), identical, near_ties, difference)


def _scores(engine: Engine, questions: Questions, hparams: DecodeHParams) -> list[np.ndarray]:
    """Returns the log-probability of each token of the given outputs."""
    found: list[Any] = [None] * len(questions.targets)
    for indices, rows in engine.score_tokens(questions.score_rows, questions.targets, hparams):
        for index, log_probs in zip(indices, rows, strict=True):
            found[index] = np.asarray(log_probs, np.float64)
    return found


def _best(batches: Iterator[BatchHypotheses]) -> Answers:
    found: dict[int, tuple[list[int], float, float]] = {}
    for indices, result in batches:
        for row, index in enumerate(indices):
            ids = result.ids[row, 0, : result.lengths[row, 0]].tolist()
            found[int(index)] = ids, float(result.scores[row, 0]), float(result.log_probs[row, 0])
    ids, scores, log_probs = zip(*(found[index] for index in sorted(found)), strict=True)
    return Answers(list(ids), list(scores), list(log_probs))


class FallbackEngine(Engine):
    """Uses `fast` for the requests that it supports, else `full`, and logs each reason once.

    Args:
        fast: preferred.
        full: returns the engine that supports all requests.
        judge: decides whether `fast` answers as `full`; None to use it unchecked.
    """

    def __init__(self, fast: Engine, full: Callable[[], Engine], judge: Judge | None = None):
        self._fast, self._full, self._judge = fast, full, judge
        self._notified: set[str] = set()
        self.name = fast.name

    def refusal(self, request: DecodeRequest) -> str:
        """Returns why `full` decodes instead, whatever a comparison says; an empty text if `fast` may."""
        if refusal := self._fast.refusal(request):
            return refusal
        is_list = not request.settings.only_best and request.settings.uses_beam_search
        return "it finds other outputs below the best" if self._judge and is_list else ""

    def decode(self, request: DecodeRequest) -> Iterator[BatchHypotheses]:
        """See the base class."""
        return self._engine(self.refusal(request), request.settings).decode(request)

    def score_tokens(
        self, sources: Sequence[Row], targets: Sequence[Row], hparams: DecodeHParams
    ) -> Iterator[tuple[np.ndarray, list[np.ndarray]]]:
        """See the base class."""
        engine = self._engine(self._fast.score_refusal(sources, targets))
        return engine.score_tokens(sources, targets, hparams)

    def warm_up(self, request: DecodeRequest) -> None:
        """See the base class."""
        self._engine(self.refusal(request), request.settings).warm_up(request)

    def _engine(self, refusal: str, settings: SearchSettings | None = None) -> Engine:
        reason = refusal or (self._judge.disagreement(self._fast, self._full, settings) if self._judge else "")
        if not reason:
            return self._fast
        full = self._full()
        if reason not in self._notified:
            self._notified.add(reason)
            level = logging.INFO if self._judge else logging.WARNING  # nobody asked for `fast` by name
            log.log(level, "%s: %s; %s does this", self._fast.name, reason, full.name)
        return full
