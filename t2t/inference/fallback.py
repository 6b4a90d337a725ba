"""Decodes with a fast engine what it supports, and with the model itself the rest."""

import logging
from abc import abstractmethod
from collections.abc import Callable, Iterator, Sequence

import numpy as np

from t2t.hparams.groups import DecodeHParams
from t2t.inference.agreement import Judge
from t2t.inference.engine import BatchHypotheses, DecodeRequest, Engine
from t2t.inference.rows import Row
from t2t.search.settings import SearchSettings

log = logging.getLogger("t2t")


class PartialEngine(Engine):
    """An engine that supports only some requests."""

    @abstractmethod
    def refusal(self, request: DecodeRequest) -> str:
        """Returns why it cannot decode as requested; an empty text if it can."""

    @abstractmethod
    def score_refusal(self, sources: Sequence[Row], targets: Sequence[Row]) -> str:
        """Returns why it cannot score; an empty text if it can."""


class FallbackEngine(Engine):
    """Uses `fast` for the requests that it supports, else `full`, and logs each reason once.

    Args:
        fast: preferred.
        full: returns the engine that supports all requests.
        judge: decides whether `fast` answers as `full`; None to use it unchecked.
    """

    def __init__(self, fast: PartialEngine, full: Callable[[], Engine], judge: Judge | None = None):
        self._fast, self._full, self._judge = fast, full, judge
        self._notified: set[str] = set()
        self.name = fast.name

    def refusal(self, request: DecodeRequest) -> str:
        """Returns why `full` decodes instead, whatever a comparison says; an empty text if `fast` may."""
        return self._fast.refusal(request) or self._unchecked(request.settings)

    def _unchecked(self, settings: SearchSettings) -> str:
        if self._judge is None or settings.only_best or not settings.uses_beam_search:
            return ""
        return "it finds other outputs below the best"

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
