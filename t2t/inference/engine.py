"""What decodes: rows of ids to hypotheses, and to probabilities."""

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence

import numpy as np

from t2t.decoding.result import SearchResult
from t2t.decoding.settings import SearchSettings
from t2t.hparams.groups import DecodeHParams
from t2t.inference.rows import Row
from t2t.specs.constraints.constraint import OutputConstraint

Prefixes = Sequence[Sequence[int]]
"""Ids that the output of each row begins with, without end of sequence; some may be empty."""

Constraints = Sequence[OutputConstraint]
"""What the output of each row may be."""

BatchHypotheses = tuple[np.ndarray, SearchResult]
"""Numbers of rows and their hypotheses, numpy arrays."""


class Engine(ABC):
    """Runs a model for a `Translator`; may be called from several threads at a time."""

    name: str
    """Of itself, and of what else its answers depend on."""

    @abstractmethod
    def decode(
        self,
        rows: Sequence[Row],
        places: np.ndarray,
        settings: SearchSettings,
        hparams: DecodeHParams,
        prefixes: Prefixes | None = None,
        constraints: Constraints | None = None,
    ) -> Iterator[BatchHypotheses]:
        """Yields numbers of rows with what was found for them, in any order.

        Args:
            rows: at least one; ids as the model reads them, see `t2t.inference.rows.cut_rows`, or other inputs.
            places: (rows,) int, what names each row when sampling.
            settings: how to search.
            hparams: the sizes of batches, and by how much an output may be longer than its input.
            prefixes: what outputs begin with, at no cost, where the model has inputs; None for nothing.
            constraints: what outputs may be, of one class; the prefixes keep to them. None for anything.
        """

    def score(
        self, sources: Sequence[Row], targets: Sequence[Row], hparams: DecodeHParams
    ) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        """Yields numbers of pairs and ln p(target | source) of each, (pairs of the batch,) float64, in any order.

        The arguments are those of `score_tokens`.
        """
        for numbers, found in self.score_tokens(sources, targets, hparams):
            yield numbers, np.array([log_probs.sum(dtype=np.float64) for log_probs in found])

    @abstractmethod
    def score_tokens(
        self, sources: Sequence[Row], targets: Sequence[Row], hparams: DecodeHParams
    ) -> Iterator[tuple[np.ndarray, list[np.ndarray]]]:
        """Yields numbers of pairs and the log-probability of each token of a target, given those before it.

        Pairs come in any order.

        Args:
            sources: as the `rows` of `decode`; empty ones where the model has no inputs.
            targets: as many, ids with end of sequence, or without where they are outputs that were cut.
            hparams: the sizes of batches.
        """

    @abstractmethod
    def warm_up(
        self,
        rows: Sequence[Row],
        settings: SearchSettings,
        hparams: DecodeHParams,
        constraints: Constraints | None = None,
    ) -> None:
        """Decodes the batches of rows that need most memory, as many as are decoded at a time."""
