"""Decodes with a fast engine what it supports, and with the model itself the rest.

Legend: B rows of a trial.
"""

import dataclasses
import logging
from abc import abstractmethod
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Protocol

import numpy as np

from t2t.decoding.settings import SearchSettings
from t2t.hparams.groups import DecodeHParams
from t2t.inference.engine import BatchHypotheses, DecodeRequest, Engine
from t2t.inference.rows import Row

log = logging.getLogger("t2t")

TRIAL_ROWS = 16
"""Rows that both engines decode before the fast one is used; the other takes seconds to start."""


class PartialEngine(Engine):
    """An engine that supports only some requests."""

    @abstractmethod
    def refusal(self, request: DecodeRequest) -> str:
        """Returns why it cannot decode as requested; an empty text if it can."""

    @abstractmethod
    def score_refusal(self, sources: Sequence[Row], targets: Sequence[Row]) -> str:
        """Returns why it cannot score; an empty text if it can."""


@dataclasses.dataclass(frozen=True)
class Agreement:
    """How the outputs of two engines compare."""

    rows: int
    identical: int
    """Rows with the same best output, id by id; of scores, all."""
    difference: float
    """Largest difference between the log-probabilities of equal outputs, in nats per token."""

    def __str__(self) -> str:
        return f"{self.identical} of {self.rows} outputs are equal, by up to {self.difference:.1g} nats a token apart"


@dataclasses.dataclass(frozen=True)
class Demand:
    """The agreement required for using the fast engine."""

    identical_share: float
    difference: float

    def holds(self, found: Agreement) -> bool:
        """Returns whether outputs agree well enough; False for a difference of NaN."""
        return found.identical >= self.identical_share * found.rows and found.difference <= self.difference


class Trials(Protocol):
    """Stores the results of trials."""

    def get(self, what: str) -> Agreement | None:
        """Returns the result of a trial, or None."""

    def set(self, what: str, found: Agreement) -> None:
        """Stores the result of a trial."""


class FallbackEngine(Engine):
    """Uses `fast` for the requests that it supports, else `full`, and logs each reason once.

    Args:
        fast: preferred.
        full: returns the engine that supports all requests.
        demand: the agreement required for each kind of search; None to use `fast` unchecked.
        trials: where the measured agreements are kept.
    """

    def __init__(
        self,
        fast: PartialEngine,
        full: Callable[[], Engine],
        demand: Demand | None = None,
        trials: Trials | None = None,
    ):
        self._fast, self._full, self._demand = fast, full, demand
        self._trials: Trials = trials if trials is not None else _Remembered()
        self._notified: set[str] = set()
        self.name = fast.name

    def refusal(self, request: DecodeRequest) -> str:
        """Returns why `full` decodes instead; an empty text if `fast` does."""
        return self._fast.refusal(request)

    def decode(self, request: DecodeRequest) -> Iterator[BatchHypotheses]:
        """See the base class."""
        what = " ".join(map(str, (self.name, *_kind_of_search(request.settings))))

        def try_both() -> Agreement:
            scored = dataclasses.replace(request.settings, scored=True)  # they are compared
            some = dataclasses.replace(request.of_rows(_spread(len(request.rows))), settings=scored)
            return _compare(*(_best(engine.decode(some)) for engine in (self._full(), self._fast)))

        return self._engine(self.refusal(request), what, len(request.rows), try_both).decode(request)

    def score_tokens(
        self, sources: Sequence[Row], targets: Sequence[Row], hparams: DecodeHParams
    ) -> Iterator[tuple[np.ndarray, list[np.ndarray]]]:
        """See the base class."""

        def try_both() -> Agreement:
            chosen = _spread(len(targets))
            some = [sources[i] for i in chosen], [targets[i] for i in chosen]
            log_probs = np.zeros((2, len(chosen)))
            for engine, found in zip((self._full(), self._fast), log_probs, strict=True):
                for indices, values in engine.score(some[0], some[1], hparams):
                    found[indices] = values
            apart = np.abs(log_probs[0] - log_probs[1]) / list(map(len, some[1]))
            return Agreement(len(chosen), len(chosen), float(apart.max()))

        return self._engine(
            self._fast.score_refusal(sources, targets), f"{self.name} scores", len(targets), try_both
        ).score_tokens(sources, targets, hparams)

    def warm_up(self, request: DecodeRequest) -> None:
        """See the base class."""
        engine = self._full() if self.refusal(request) else self._fast
        engine.warm_up(request)

    def _engine(self, refusal: str, what: str, rows: int, try_both: Callable[[], Agreement]) -> Engine:
        reason = refusal or self._disagreement(what, rows, try_both)
        if not reason:
            return self._fast
        if reason not in self._notified:
            self._notified.add(reason)
            log.warning("%s: %s; %s does this", self._fast.name, reason, self._full().name)
        return self._full()

    def _disagreement(self, what: str, rows: int, try_both: Callable[[], Agreement]) -> str:
        if self._demand is None:
            return ""
        found = self._trials.get(what)
        if found is None or found.rows < min(rows, TRIAL_ROWS):  # a trial of fewer rows says little
            found = try_both()
            self._trials.set(what, found)
            log.info("%s next to %s: %s", self._fast.name, self._full().name, found)
        return "" if self._demand.holds(found) else str(found)


class _Remembered(dict[str, Agreement]):
    """Results of the trials of this process."""

    set = dict.__setitem__


def _kind_of_search(settings: SearchSettings) -> tuple[Any, ...]:
    """Returns the settings that tell kinds of searches apart; the engines are compared once for each kind."""
    return settings.method, settings.rows_per_sentence, settings.penalty, settings.alpha, settings.only_best


def _spread(count: int) -> np.ndarray:
    """Returns the indices of at most TRIAL_ROWS rows, evenly spread."""
    return np.unique(np.linspace(0, count - 1, min(count, TRIAL_ROWS)).astype(int))


def _best(batches: Iterator[BatchHypotheses]) -> list[tuple[tuple[int, ...], float]]:
    """Returns the ids and the log-probability of the best output of each row."""
    found: dict[int, Any] = {}
    for indices, result in batches:
        for row, index in enumerate(indices):
            ids = tuple(result.ids[row, 0, : result.lengths[row, 0]].tolist())
            found[int(index)] = ids, float(result.log_probs[row, 0])
    return [found[index] for index in sorted(found)]


def _compare(ours: list, theirs: list) -> Agreement:
    equal = [(a, b) for a, b in zip(ours, theirs, strict=True) if a[0] == b[0]]
    apart = [abs(a[1] - b[1]) / max(1, len(a[0])) for a, b in equal]
    return Agreement(len(ours), len(equal), max(apart, default=0.0))
