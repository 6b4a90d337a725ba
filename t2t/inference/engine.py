"""The interface of engines, which decode rows of ids to hypotheses and score given outputs; the choice of one.

Loads no TensorFlow.
"""

import dataclasses
import importlib.util
import os
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from typing import Any, Self

import numpy as np

from t2t.errors import UserError, needs_extra
from t2t.hparams.groups import DecodeHParams
from t2t.inference.rows import Row
from t2t.search.result import SearchResult
from t2t.search.settings import SearchSettings
from t2t.specs.constraints import OutputConstraint

MOST_SEARCHES = 64
"""Maximum number of compiled searches that are kept; the least recently used one is dropped. It is enough for all that
requests to a service may ask for with its default limits."""

Prefixes = Sequence[Sequence[int]]
"""Ids that the output of each row begins with, without end of sequence; some may be empty."""

Constraints = Sequence[OutputConstraint]
"""The constraint on the output of each row."""

BatchHypotheses = tuple[np.ndarray, SearchResult]
"""Indices of rows and their hypotheses, numpy arrays."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class DecodeRequest:
    """Rows to decode, and how."""

    rows: Sequence[Row]
    """At least one; ids as the model reads them, see `t2t.inference.rows.cut_rows`, or other inputs."""
    seeds: np.ndarray
    """(rows,) int, the sampling seed of each row, used with that of the settings."""
    sentences: np.ndarray
    """(rows,) int, the index of each row among the inputs, of which blank ones are not decoded."""
    settings: SearchSettings
    row_settings: Sequence[SearchSettings] | None = None
    """Those of each row, which differ from `settings` only in how they are sampled; None for the same."""
    hparams: DecodeHParams
    """The sizes of batches, by how much an output may be longer than its input, and whether a shortlist is used."""
    prefixes: Prefixes | None = None
    """Ids that outputs begin with, which count as certain, if the model has inputs; None for none."""
    code_length: int = 0
    """How many ids of each prefix are the problem's language code; the others add to the longest output."""
    constraints: Constraints | None = None
    """On the outputs, all of one class and satisfied by the prefixes; None for none."""

    def of_rows(self, indices: Sequence[int] | np.ndarray) -> "DecodeRequest":
        """Returns the request for some of the rows."""

        def some(values: Sequence[Any] | None) -> list[Any] | None:
            return None if values is None else [values[index] for index in indices]

        rows = [self.rows[index] for index in indices]
        return dataclasses.replace(
            self, rows=rows, seeds=self.seeds[indices], sentences=self.sentences[indices],
            prefixes=some(self.prefixes), constraints=some(self.constraints), row_settings=some(self.row_settings),
        )  # fmt: skip


class Engine(ABC):
    """Runs a model for a `Translator`; may be called from several threads at a time."""

    name: str
    """Identifies the engine and whatever else its outputs depend on, e.g. its version."""

    def refusal(self, request: DecodeRequest) -> str:
        """Returns why it cannot decode as requested; an empty text if it can."""
        return ""

    def score_refusal(self, sources: Sequence[Row], targets: Sequence[Row]) -> str:
        """Returns why it cannot score; an empty text if it can."""
        return ""

    @abstractmethod
    def decode(self, request: DecodeRequest) -> Iterator[BatchHypotheses]:
        """Yields indices of rows with their hypotheses, in any order."""

    def score(
        self, sources: Sequence[Row], targets: Sequence[Row], hparams: DecodeHParams
    ) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        """Yields indices of pairs and ln p(target | source) of each, (pairs of the batch,) float64, in any order.

        The arguments are those of `score_tokens`.
        """
        for indices, found in self.score_tokens(sources, targets, hparams):
            yield indices, np.array([log_probs.sum(dtype=np.float64) for log_probs in found])

    @abstractmethod
    def score_tokens(
        self, sources: Sequence[Row], targets: Sequence[Row], hparams: DecodeHParams
    ) -> Iterator[tuple[np.ndarray, list[np.ndarray]]]:
        """Yields indices of pairs and the log-probability of each token of a target, given those before it.

        Pairs come in any order.

        Args:
            sources: as the rows of a `DecodeRequest`; empty ones where the model has no inputs.
            targets: as many, ids with end of sequence, or without it if an output was cut.
            hparams: the sizes of batches.
        """

    @abstractmethod
    def warm_up(self, request: DecodeRequest) -> None:
        """Decodes the batches of rows that need the most memory, as many as are decoded in parallel."""


TENSORFLOW, CTRANSLATE2, AUTO = ENGINES = ("tensorflow", "ctranslate2", "auto")

VARIABLE = "T2T_ENGINE"
"""Environment variable with the engine that `auto` stands for."""

COMPUTE_TYPES = ("float32", "int8", "int16", "bfloat16")
"""Number formats in which CTranslate2 multiplies, if the processor supports them; TensorFlow uses the first."""

AVERAGES = ("probabilities", "log_probabilities")
"""What an ensemble averages, see `t2t.models.ensemble`."""


@dataclasses.dataclass(frozen=True)
class EngineChoice:
    """The requested engine and compute type."""

    engine: str = TENSORFLOW
    """One of ENGINES: `tensorflow` is the model itself, on Keras's backend; `auto` is CTranslate2 on processors, if it
    is installed, supports the model and agrees with the model itself."""
    compute_type: str = COMPUTE_TYPES[0]
    """One of COMPUTE_TYPES."""

    @classmethod
    def requested(cls, engine: str, compute_type: str = COMPUTE_TYPES[0]) -> Self:
        """Returns what a user asks for; the variable `T2T_ENGINE` may name what `auto` stands for.

        Raises:
            UserError: see `check`.
        """
        named = os.environ.get(VARIABLE, "")
        if named not in ("", *ENGINES):
            raise UserError(f"{VARIABLE}={named}: there is no such engine", f"set it to one of {', '.join(ENGINES)}")
        choice = cls(named if named and engine == AUTO else engine, compute_type)
        choice.check()
        return choice

    def check(self) -> None:
        """Raises UserError for unknown values, an engine that is not installed, or values that do not fit together."""
        for flag, value, allowed in (
            ("--engine", self.engine, ENGINES),
            ("--compute_type", self.compute_type, COMPUTE_TYPES),
        ):
            if value not in allowed:
                raise UserError(f"{flag}={value}: there is no such", f"ask for one of {', '.join(allowed)}")
        if self.engine == TENSORFLOW and self.compute_type != COMPUTE_TYPES[0]:
            raise UserError(
                "--engine=tensorflow decodes in float32",
                "ask for --engine=ctranslate2 or --engine=auto too",
                option="compute_type",
                value=self.compute_type,
            )
        if self.engine == CTRANSLATE2:
            with needs_extra("ctranslate2", "--engine=ctranslate2"):
                if not ctranslate2_is_installed():
                    raise ModuleNotFoundError(name="ctranslate2")


def ctranslate2_is_installed() -> bool:
    """Returns whether CTranslate2 is installed; does not import it."""
    return importlib.util.find_spec("ctranslate2") is not None
