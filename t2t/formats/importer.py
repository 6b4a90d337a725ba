"""What an importer is: the files that it reads, the request that it gets, and the run that it returns.

This module loads nothing large, so that the help is shown at once. Importers are registered by name: those of t2t in
`built_in.py`, others by plug-ins.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from t2t.errors import UserError
from t2t.registry import IMPORTERS
from t2t.registry.overrides import PluginError

if TYPE_CHECKING:
    from t2t.checkpoints.arrays import Arrays
    from t2t.hparams.base import HParams
    from t2t.hparams.transformer import TransformerHParams
    from t2t.problems.base import Problem

TENSOR2TENSOR = "tensor2tensor"
DEFAULT_PROBLEM = "text2text_files"
LANGUAGES = ("source_language", "target_language")
"""Options of problems: the languages of inputs and outputs, for models with language codes."""


@dataclass(frozen=True)
class Reads:
    """What an importer reads."""

    folder: str = "the folder of the model"
    """Description of the folder that `--model_dir` names."""
    needs: tuple[str, ...] = ()
    """Further required flags."""
    takes: tuple[str, ...] = ()
    """Further optional flags."""
    named_problem: Callable[[Path], str] = lambda _: DEFAULT_PROBLEM
    """Returns the name of the problem that a model's folder names; raises UserError if it names none."""


Reader = TypeVar("Reader", bound=Callable[..., Any])


def reads(
    folder: str,
    needs: tuple[str, ...] = (),
    takes: tuple[str, ...] = (),
    named_problem: Callable[[Path], str] = Reads.named_problem,
) -> Callable[[Reader], Reader]:
    """Decorates an importer, a function of an `ImportRequest` that returns a `ForeignRun`, with what it reads."""
    if not isinstance(folder, str) or isinstance(needs, str) or isinstance(takes, str):
        raise PluginError(
            "@reads: it has other arguments", 'write @reads("the folder", needs=("flag",), takes=("flag",))'
        )

    def decorate(importer: Reader) -> Reader:
        importer.reads = Reads(folder, needs, takes, named_problem)  # type: ignore[attr-defined]
        return importer

    return decorate


def read_by(format: str) -> Reads:
    """Returns what the importer of a format reads; raises UnknownNameError for an unknown format."""
    found: Reads = getattr(IMPORTERS.get(format), "reads", Reads())
    return found


@dataclass(frozen=True, kw_only=True)
class ImportRequest:
    """What to import and where to; empty and None mean the default of the format."""

    format: str
    """Name of a registered importer."""
    model_dir: Path
    """The foreign folder."""
    output_dir: Path
    """The run directory to create."""
    problem: Problem
    """The run's problem, without vocabularies."""
    vocab_file: Path | None = None
    """The vocabulary, for formats whose folders do not contain it."""
    sentencepiece_models: tuple[Path, ...] = ()
    """SentencePiece models that split texts into the model's tokens: one for both sides, or one each."""
    step: int | None = None
    """Step of the checkpoint."""
    target_space_id: int | None = None
    """Row of Tensor2Tensor's target space embedding."""


@dataclass(frozen=True, kw_only=True)
class ForeignRun:
    """A model of another toolkit in our terms; keys of arrays are variable paths without the model's name."""

    problem: Problem
    """The problem, with its encoders."""
    model: str = "transformer"
    """Registered name."""
    hparams: HParams
    hparams_set: str = "transformer_base"
    """Name of the set that `hparams` are based on."""
    weights: Arrays
    tensors: int
    """Number of foreign tensors that became weights."""
    unused: Mapping[str, str] = field(default_factory=dict)
    """Foreign tensors that are not needed: name -> reason."""
    step: int = 0
    """Number of updates done."""
    moments: Mapping[str, Arrays] = field(default_factory=dict)
    """Adam's first (`momentum`) and second moment (`velocity`), float32; empty if unknown."""
    origin: str
    """Source of the weights, for messages: `the checkpoint in <folder>`."""
    settings: str
    """Source of the network's settings, for messages: `its config.json`."""
    notes: tuple[str, ...] = ()
    """Further lines of the report."""
    warnings: tuple[str, ...] = ()
    """Properties of the foreign model that could not be imported."""


# === Parts of importers ===


class Settings(dict[str, Any]):
    """The settings in a foreign file by name.

    Args:
        values: the settings.
        where: the file, for messages.
    """

    def __init__(self, values: Mapping[str, Any], where: Path | str):
        super().__init__(values)
        self.where = str(where)

    def need(self, name: str, kind: type = int) -> Any:
        """Returns a setting; raises UserError if it is missing or has the wrong type."""
        value = self.get(name)
        if type(value) is not kind:
            raise UserError(f"{self.where} has {name}={value!r}; it must be of type {kind.__name__}", "get it again")
        return value

    def size(self, name: str, default: int | None = None) -> int:
        """Returns a whole number above 0, or the default if it is missing; raises UserError for anything else."""
        if default is not None and self.get(name) is None:
            return default
        size: int = self.need(name)
        if size < 1:
            raise UserError(f"{self.where} has {name}={size}; it must be above 0", "get it again")
        return size

    def number(self, name: str, default: float) -> float:
        """Returns a number, or the default if it is missing; raises UserError for anything else."""
        value = self.get(name)
        if value is None:
            return default
        if type(value) not in (int, float) or not math.isfinite(value):
            raise UserError(f"{self.where} has {name}={value!r}, which is not a number", "get it again")
        return float(value)

    def check(self, known: Mapping[str, Collection[Any]], wrong: Sequence[str] = ()) -> None:
        """Raises UserError for settings whose values are not in `known`, and for what else is `wrong` with them."""
        if found := [*unknown_values(self, known), *wrong]:
            raise UserError(
                f"{self.where} describes another network than the models here: {'; '.join(found)}",
                "it cannot be imported",
            )


def unknown_values(settings: Mapping[str, Any], known: Mapping[str, Collection[Any]]) -> list[str]:
    """Returns a text for each setting whose value is not in `known`; missing settings are skipped."""
    return [
        f"{name}={settings[name]!r} (known: {', '.join(map(repr, values))})"
        for name, values in known.items()
        if name in settings and settings[name] not in values
    ]


def alignment_hparams(layer: Any, heads: Any, hparams: TransformerHParams) -> tuple[dict[str, Any], tuple[str, ...]]:
    """Returns the decode hparams for alignments, and warnings of what they cannot say.

    Args:
        layer: index of a layer of the decoder; a negative one counts from the end. None if the model names none.
        heads: how many of its heads, the first ones, are averaged; 0 or None for all.
        hparams: of the network.
    """
    layers, most, heads = hparams.decoder_layers, hparams.of_decoder.num_heads, heads or 0
    if type(layer) is not int or type(heads) is not int:
        return {}, ()
    if not -layers <= layer < layers:
        return {}, (f"alignments are those of layer {layer}, and the decoder has {layers}; see alignment_layer",)
    warnings: tuple[str, ...] = ()
    if 1 < heads < most:
        said = f"alignments are the mean of {heads} of the {most} heads of a layer; here they are that of all"
        warnings = (f"{said}; see alignment_head",)
    return {"alignment_layer": layer % layers + 1, "alignment_head": int(heads == 1)}, warnings
