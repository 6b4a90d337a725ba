"""The request for an export, and the interface of every export format."""

import dataclasses
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from t2t.checkpoints.run_dir import RunDir
from t2t.export.formats import FLOAT32
from t2t.export.parity import Parity
from t2t.inference.rows import Row
from t2t.inference.translator import Translator


@dataclasses.dataclass(frozen=True, kw_only=True)
class ExportJob:
    """What to make, see `t2t.export.formats`."""

    folder: Path
    format: str
    n_best: int = 1
    """Outputs for each input."""
    quantization: str = FLOAT32
    origin: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    """Describes the run in the report."""
    run: RunDir | None = None
    """The run, for formats that describe it further."""


@dataclasses.dataclass(frozen=True)
class Trial:
    """Inputs to compare an export and its run on."""

    rows: Sequence[Row]
    """Ids without end of sequence, or arrays of other inputs."""
    texts: Sequence[str] | None
    """The same as text; None for arrays."""
    origin: str = "inputs of the caller"


class Export(ABC):
    """Base class of the formats; the constructor raises UserError if a format cannot hold the model or do the job."""

    def __init__(self, translator: Translator, job: ExportJob):
        self.translator, self.job = translator, job

    @abstractmethod
    def write(self, folder: Path) -> None:
        """Writes its files into a folder; may raise OSError."""

    @abstractmethod
    def verify(self, folder: Path, trial: Trial) -> dict[str, Parity]:
        """Loads the written export and compares its outputs with the run's, by kind of request.

        Raises:
            ParityError: the outputs differ.
        """

    @abstractmethod
    def usage(self) -> str:
        """Returns the README of the folder as Markdown without a title; its examples run as shown."""

    def front_matter(self) -> str:
        """Returns what stands before the title of the README, ended by a line; nothing in most formats."""
        return ""
