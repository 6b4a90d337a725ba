"""What an exporter is: what it needs, the request that it gets, and the interface of what writes an export.

This module loads no TensorFlow, so that requests are checked at once. Exporters are registered by name: those of t2t in
`built_in.py`, others by plug-ins.
"""

from __future__ import annotations

import dataclasses
import importlib.util
import shutil
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar

from t2t.errors import UnknownNameError, UserError, needs_extra
from t2t.files.paths import local_path
from t2t.files.remote.mirror import exists, is_mirrored, names_in
from t2t.formats.parity import FLOAT32, PROMISES, Parity
from t2t.registry import EXPORTERS
from t2t.registry.overrides import PluginError, check_overrides

if TYPE_CHECKING:
    from t2t.checkpoints.run_dir import RunDir
    from t2t.hparams.base import HParams
    from t2t.hparams.groups import DecodeHParams
    from t2t.inference.rows import Row
    from t2t.inference.translator import Translator
    from t2t.text.vocabulary_files import VocabularyFile

OTHER_INPUTS = "or leave --data_dir out, or give lines of text to try the export on with --parity_file"
"""Advice for data that cannot be read."""

SAVED_MODEL = "saved_model"

REPORT, README = "t2t_export.json", "README.md"
"""Files that every export has besides those of its format."""
UNFINISHED = ".t2t_unfinished"
"""Marker file in an object store while an export there is incomplete."""


# === What is needed ===


@dataclasses.dataclass(frozen=True)
class Needs:
    """What an exporter can quantize to, and the packages that it needs."""

    quantizations: tuple[str, ...] = (FLOAT32,)
    packages: tuple[str, ...] = ()
    """Required packages, by module name."""
    extra: str = ""
    """Extra of this package that installs them."""


Made = TypeVar("Made", bound=Callable[..., Any])


def needs(
    quantizations: tuple[str, ...] = (FLOAT32,), packages: tuple[str, ...] = (), extra: str = ""
) -> Callable[[Made], Made]:
    """Decorates an exporter, a class or function, with its `Needs`."""
    for name, value in (("quantizations", quantizations), ("packages", packages)):
        if isinstance(value, str):
            raise PluginError(f"@needs: {name} is {value!r}", f'write {name}=("{value}",)')

    def decorate(exporter: Made) -> Made:
        exporter.needs = Needs(quantizations, packages, extra)  # type: ignore[attr-defined]
        return exporter

    return decorate


def needs_of(format: str) -> Needs:
    """Returns what the exporter of a format needs."""
    found: Needs = getattr(EXPORTERS.get(format), "needs", Needs())
    return found


def describe_quantizations() -> str:
    """Lists the formats that support each quantization besides float32."""
    having = {name: [one for one in EXPORTERS.names() if name in needs_of(one).quantizations] for name in PROMISES}
    return "; ".join(f"{name} for {' and '.join(formats)}" for name, formats in having.items() if name != FLOAT32)


def check_request(format: str, quantization: str, folder: Path) -> None:
    """Checks an export request before the run is loaded.

    Raises:
        UserError: an unknown format, an unsupported quantization, a missing package, or an existing folder.
    """
    there = names_in(folder) if is_mirrored(folder) else folder.exists()
    if there and not exists(folder / UNFINISHED):
        raise UserError("it is there already", "name another, or remove it first", option="export_dir", value=folder)
    if format not in EXPORTERS:
        raise UnknownNameError(
            f"there is no such exporter; ask for one of {', '.join(EXPORTERS.names())}",
            EXPORTERS.plugin_hint,
            option="format",
            value=format,
        )
    asked = needs_of(format)
    if quantization not in asked.quantizations:
        raise UserError(
            f"{format} has {', '.join(asked.quantizations)}", "ask for that", option="quantization", value=quantization
        )
    with needs_extra(asked.extra, f"--format={format}"):
        for package in asked.packages:
            if importlib.util.find_spec(package) is None:  # without importing, since some load TensorFlow
                raise ModuleNotFoundError(name=package)


def is_export(folder: Path | str) -> bool:
    """Returns whether a folder holds an export of `t2t-exporter`."""
    return exists(local_path(folder) / REPORT)


# === A request, and what writes it ===


@dataclasses.dataclass(frozen=True, kw_only=True)
class ExportJob:
    """An export request."""

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

    def __init_subclass__(cls) -> None:
        check_overrides(cls)

    def __init__(self, translator: Translator, job: ExportJob):
        self.translator, self.job = translator, job

    def refusal(self, found: str, cure: str) -> UserError:
        """Returns the error for a model or a setting that the format does not have."""
        return UserError(found, cure, option="format", value=self.job.format)

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
        from t2t.text.vocabulary_files import save_encoders

        shutil.copy(Path(__file__).with_name("vocabularies.py"), folder)
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


# === The search of an export ===

UNCONSTRAINED: dict[str, Any] = {
    "min_output_length": 0, "eos_penalty": 0.0, "no_repeat_ngram_size": 0, "constrain_output": False,
}  # fmt: skip
"""Changes of the decode hparams that remove all constraints on outputs."""
GREEDY: dict[str, Any] = {"decode_method": "greedy", "alpha": 0.0, **UNCONSTRAINED}
"""Changes of the decode hparams for greedy search scored by log-probability, which all engines have in common."""

_WITHOUT = {name: (value,) for name, value in UNCONSTRAINED.items()} | {"coverage_penalty": (0.0,)}
BEAM_SEARCH: Mapping[str, tuple | None] = {
    **_WITHOUT, "decode_method": ("beam", "greedy"), "beam_size": None, "alpha": None, "length_penalty": ("power",),
}  # fmt: skip
"""Programs with a beam search of their own, see `Export.search`."""
GREEDY_SEARCH: Mapping[str, tuple | None] = {
    **_WITHOUT, "decode_method": ("greedy",), "beam_size": (1,), "alpha": (0.0,), "extra_length": None,
}  # fmt: skip
"""The script of graphs, see `Export.search`."""

_SETTINGS = tuple(dict.fromkeys((
    *BEAM_SEARCH, *GREEDY_SEARCH, "sampling_temperature", "sampling_top_k", "sampling_top_p",
    "mask_predict_iterations", "length_candidates",
)))  # fmt: skip


def complaints(hparams: HParams, wanted: Mapping[str, Collection[Any]]) -> list[str]:
    """Returns a text for each setting whose value is not among the `wanted` ones."""
    return [
        f"{name}={getattr(hparams, name)} (known: {', '.join(map(str, values))})"
        for name, values in wanted.items()
        if getattr(hparams, name) not in values
    ]


def beams(hparams: DecodeHParams) -> int:
    """Returns the beam size for a program with a beam search of its own; 1, greedy search, for any other method."""
    return hparams.beam_size if hparams.decode_method == "beam" else 1


def length_exponent(hparams: DecodeHParams) -> float:
    """Returns the exponent of the length that scores are divided by, the only length penalty of such programs."""
    return float(hparams.alpha) if hparams.length_penalty == "power" else 0.0


def check_search(made: Export) -> None:
    """Checks that an export keeps the search that was asked for it.

    Raises:
        UserError: more than one output of a model that searches, or settings that the export's search is not given.
    """
    job, hparams, kept = made.job, made.translator.hparams, made.search
    if kept is None or not made.translator.model.autoregressive:
        return
    asked = set(job.asked)
    if "alpha" in asked and hparams.alpha and kept["alpha"] is None:
        asked.add("length_penalty")  # of which it is the strength
    wanted = {"n_best": job.n_best} | {name: getattr(hparams, name) for name in _SETTINGS if name in asked}
    lost = []
    for name, value in wanted.items():
        values = (1,) if name == "n_best" else kept.get(name, ())
        if values is not None and value not in values:
            lost.append(f"{name}={value}" + (f" (only {' or '.join(map(str, values))})" if values else ""))
    if lost:
        others = "" if hparams.decode_method == "sample" else f", or use {SAVED_MODEL}, which has the run's own search"
        raise made.refusal(f"the search of the export is not given {', '.join(lost)}", f"leave that out{others}")
