"""The request for an export, and the interface of every export format."""

import dataclasses
import shutil
from abc import ABC, abstractmethod
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar

from t2t.checkpoints.run_dir import RunDir
from t2t.formats import vocabularies
from t2t.formats.export_formats import FLOAT32
from t2t.formats.parity import Parity
from t2t.inference.rows import Row
from t2t.inference.translator import Translator
from t2t.text.vocabulary_files import VocabularyFile, save_encoders


@dataclasses.dataclass(frozen=True, kw_only=True)
class ExportJob:
    """An export request, see `t2t.formats.export_formats`."""

    folder: Path
    format: str
    n_best: int = 1
    """Number of outputs for each input."""
    quantization: str = FLOAT32
    asked: Collection[str] = ()
    """Names of the decode hparams that were given for the export; the others are the run's."""
    origin: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    """Facts of the run for the report."""
    run: RunDir | None = None
    """The run, for formats that include more facts."""

    @property
    def name(self) -> str:
        """Name of the model: the last part of the folder, and the part before it for the number of a version."""
        *_, before, last = ("", *self.folder.absolute().parts)
        return f"{before}/{last}" if last.isdecimal() else last


@dataclasses.dataclass(frozen=True)
class Trial:
    """Inputs for comparing an export with its run."""

    rows: Sequence[Row]
    """Ids without end of sequence, or arrays for inputs that are not text."""
    texts: Sequence[str] | None
    """The same inputs as text; None for arrays."""
    origin: str = "inputs of the caller"


class Export(ABC):
    """Base class of the export formats; the constructor raises UserError for a model or job that is not supported."""

    keeps_constraints: ClassVar[bool] = False
    """Whether outputs are kept to those that the problem allows, see `docs/constraints.md`."""
    search: ClassVar[Mapping[str, tuple | None] | None] = None
    """What the export's search has: decode hparam -> its possible values, None for all. None for the run's search."""

    def __init__(self, translator: Translator, job: ExportJob):
        self.translator, self.job = translator, job

    @abstractmethod
    def write(self, folder: Path) -> None:
        """Writes the files of the export into a folder; may raise OSError."""

    @abstractmethod
    def verify(self, folder: Path, trial: Trial) -> dict[str, Parity]:
        """Loads the written export and compares its outputs with the run's, by kind of request.

        Raises:
            ParityError: the outputs differ.
        """

    @abstractmethod
    def usage(self) -> str:
        """Returns the README of the folder as Markdown without a title; its examples run as shown."""

    def write_vocabularies(self, folder: Path) -> dict[str, VocabularyFile]:
        """Writes the vocabularies, and `vocabularies.py`, which reads them without this package."""
        shutil.copy(vocabularies.__file__, folder)
        return save_encoders(folder, self.translator.problem.encoders)

    def packages_of_vocabularies(self) -> list[str]:
        """Returns the packages that `vocabularies.py` needs for them."""
        kinds = {encoder.kind for encoder in self.translator.problem.encoders.values()}
        return ["sentencepiece"] if kinds & {"sentencepiece", "piece_table"} else []

    def language_complaints(self) -> list[str]:
        """Returns why a format without a place for the marks of languages cannot hold the run; empty if it can."""
        has_marks = any(self.translator.problem.languages.marks())
        return ["texts have marks of their languages, for which the format has no place"] if has_marks else []

    def front_matter(self) -> str:
        """Returns text to put before the title of the README, ending with a newline; empty in most formats."""
        return ""
