"""What is asked of an export, and what every format of exports offers."""

import dataclasses
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from t2t.export.formats import FLOAT32
from t2t.export.parity import Parity
from t2t.inference.rows import Row
from t2t.inference.translator import Translator


@dataclasses.dataclass(frozen=True, kw_only=True)
class ExportJob:
    """What to make."""

    folder: Path
    """Must not be there yet."""
    format: str
    """One of `t2t.export.formats.FORMATS`."""
    n_best: int = 1
    """Outputs for each input."""
    quantization: str = FLOAT32
    """How weights are stored and multiplied."""
    origin: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    """What the report says of the run."""


@dataclasses.dataclass(frozen=True)
class Trial:
    """Inputs that an export is tried on."""

    rows: Sequence[Row]
    """Ids without end of sequence, or arrays of what is no text."""
    texts: Sequence[str] | None
    """The same as text, where it is."""
    origin: str = "inputs of the caller"
    """Where they come from, for the report."""


class Export(ABC):
    """A run on its way into one format.

    Args:
        translator: of the run.
        job: what to make.

    Raises:
        UserError: the format cannot hold the model, or do what is asked.
    """

    def __init__(self, translator: Translator, job: ExportJob):
        self.translator, self.job = translator, job

    @abstractmethod
    def write(self, folder: Path) -> None:
        """Writes its files into a folder.

        Raises:
            OSError: it cannot be written.
        """

    @abstractmethod
    def verify(self, folder: Path, trial: Trial) -> dict[str, Parity]:
        """Loads the written export and compares its outputs with the run's; returns the parity by kind of request.

        Raises:
            ParityError: it does not answer as the run does.
        """

    @abstractmethod
    def usage(self) -> str:
        """Returns how to use it, for the README in its folder: Markdown without a title. Its examples run as shown."""
