"""The files of a fairseq translation model: checkpoint, dictionaries, and BPE codes or SentencePiece models.

The settings in a checkpoint are an `argparse.Namespace`, or since 0.10.1 a tree of them. Namespaces, OmegaConf's
containers and enums are records of the restricted reader; no class is loaded.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from t2t.checkpoints.arrays import Arrays
from t2t.errors import UserError, first_few, one_line
from t2t.files.atomic import os_errors_as_machine_errors
from t2t.files.trust import check_inside
from t2t.formats.fairseq.dictionary import EOS, PAD, UNKNOWN, parse_dictionary
from t2t.formats.ids import in_our_order, our_order
from t2t.formats.pytorch import PlainValues, Record, parse_checkpoint, tensors_of
from t2t.text.bpe import BpeEncoder
from t2t.text.encoder import TextEncoder
from t2t.text.piece_table import PieceTableEncoder
from t2t.text.token import TokenEncoder

_CHECKPOINTS = ("model.pt", "checkpoint_best.pt", "checkpoint_last.pt")
"""Names of checkpoints, the preferred one first; a file with another name is used if it is the only one."""
_CODES = ("bpecodes*", "code", "codes", "code.*", "codes.*", "*.codes", "*.bpecodes", "bpe.codes*")
_MODELS = ("*.model", "*.spm")
"""Names of subword-nmt codes and SentencePiece models; a name that ends with a language belongs to that side."""


@dataclass(frozen=True)
class FairseqCheckpoint:
    """A checkpoint's tensors and settings."""

    path: Path
    settings: Mapping[str, Any]
    arrays: Arrays

    def need(self, name: str, kind: type = int) -> Any:
        """Returns a setting; raises UserError if it is missing or of another type."""
        value = self.settings.get(name)
        if type(value) is not kind:
            raise UserError(f"{self.path}: its settings have {name}={value!r}; it must be of type {kind.__name__}")
        return value

    def number(self, name: str, default: float) -> float:
        """Returns a number among the settings; raises UserError for anything else."""
        value = self.settings.get(name)
        if value is not None and type(value) not in (int, float):
            raise UserError(f"{self.path}: its settings have {name}={value!r}, which is no number; get it again")
        return default if value is None else float(value)


@dataclass(frozen=True)
class FairseqVocabularies:
    """The encoders of both sides."""

    source: TextEncoder
    target: TextEncoder
    described: str
    """How texts are split, for the report."""
    warnings: tuple[str, ...] = ()


def read_checkpoint(folder: Path) -> FairseqCheckpoint:
    """Returns the checkpoint of a folder; raises UserError if there is none, several, or a damaged one."""
    names = sorted(path.name for path in folder.glob("*.pt"))
    preferred = [name for name in _CHECKPOINTS if name in names]
    if not preferred and len(names) != 1:
        found = f"{len(names)} checkpoints, {first_few(names, ', ')}" if names else "no checkpoint (*.pt)"
        raise UserError(f"--model_dir={folder}: it has {found}; name the one to import model.pt")
    path = folder / (preferred or names)[0]
    content = _read(folder, path)
    try:
        checkpoint = parse_checkpoint(content, KNOWN)
        if not isinstance(checkpoint, dict) or "model" not in checkpoint:
            raise ValueError("it holds no model; give a checkpoint of fairseq")
        arrays, settings = tensors_of(checkpoint["model"]), read_settings(checkpoint, str(path))
    except ValueError as error:
        raise UserError(f"{path}: {one_line(error)}; get the file again") from error
    return FairseqCheckpoint(path, settings, arrays)


def read_vocabularies(folder: Path, checkpoint: FairseqCheckpoint) -> FairseqVocabularies:
    """Returns the vocabularies of both sides.

    Raises:
        UserError: a dictionary is missing, or the file for splitting texts is ambiguous.
    """
    languages = [checkpoint.settings.get(f"{side}_lang") for side in ("source", "target")]
    if not all(isinstance(language, str) for language in languages):
        raise UserError(f"{checkpoint.path}: its settings name no source_lang and target_lang; give a translator")
    codes, models = (_of_languages(folder, patterns, languages) for patterns in (_CODES, _MODELS))
    if codes and models:
        found = ", ".join(sorted({path.name for path in (*codes, *models)}))
        raise UserError(
            f"--model_dir={folder}: it has both BPE codes and SentencePiece models, {found}; leave one kind"
        )
    cutters = codes or models
    encoders = []
    for side, language in enumerate(languages):
        path = folder / f"dict.{language}.txt"
        symbols = parse_dictionary(_read(folder, path), path)
        pieces = in_our_order(symbols, our_order(len(symbols), PAD, EOS, UNKNOWN))
        content = _read(folder, cutters[side]) if cutters else b""
        encoders.append(_encoder(pieces, content, bool(codes), bool(models)))
    kind = "BPE codes" if codes else "SentencePiece model" if models else ""
    names = " and ".join(dict.fromkeys(path.name for path in cutters))
    described = f"cut by the {kind} {names}" if kind else "words as they stand, since no codes are there"
    return FairseqVocabularies(encoders[0], encoders[1], described, _warnings(checkpoint.settings, bool(kind)))


def _encoder(pieces: list[str], cutter: bytes, is_codes: bool, is_model: bool) -> TextEncoder:
    if is_codes:
        return BpeEncoder(cutter, pieces)
    return PieceTableEncoder(cutter, pieces, tags=False) if is_model else TokenEncoder(pieces[3:])


def _warnings(settings: Mapping[str, Any], is_cut: bool) -> tuple[str, ...]:
    """Returns warnings about preprocessing that texts need."""
    found = []
    if settings.get("tokenizer") == "moses":
        found.append("its texts are tokenized by Moses' rules; give texts that are, and detokenize outputs")
    if settings.get("bpe") and not is_cut:
        found.append(f"its texts are cut by {settings['bpe']}, whose file is not there; give texts that are cut")
    return tuple(found)


def _of_languages(folder: Path, patterns: Sequence[str], languages: Sequence[Any]) -> list[Path]:
    """Returns the matching files of both sides, which may be one file for both; empty if there are none.

    Raises:
        UserError: there are several files, but not one for each language.
    """
    found = sorted({path for pattern in patterns for path in folder.glob(pattern) if path.is_file()})
    if len(found) <= 1:
        return found * 2
    own = [[path for path in found if path.name.endswith(f".{language}")] for language in languages]
    if len(found) == 2 and all(len(paths) == 1 for paths in own):
        return [paths[0] for paths in own]
    raise UserError(
        f"--model_dir={folder}: {', '.join(path.name for path in found)} could all cut texts; leave one, or one that "
        f"ends with .{languages[0]} and one that ends with .{languages[1]}"
    )


def _read(folder: Path, path: Path) -> bytes:
    if not path.is_file():
        raise UserError(f"--model_dir={folder}: no {path.name} there; copy all files of the model")
    check_inside(folder, path)
    with os_errors_as_machine_errors(f"cannot read {path}"):
        return path.read_bytes()


KNOWN = (
    "argparse", "omegaconf", "fairseq", "typing", "collections", "builtins", "__builtin__", "enum", "pathlib", "numpy",
    "torch", "_codecs",
)  # fmt: skip
"""Packages whose objects a checkpoint may contain."""
_REFERENCE = re.compile(r"\$\{([\w.]+)\}")
_MOST_NESTED = 20
_MOST_BYTES = 1 << 24
"""Largest size of settings, see `PlainValues`; there are some hundred."""


def read_settings(checkpoint: Mapping[str, Any], where: str) -> dict[str, Any]:
    """Returns the settings of task and model by name.

    Raises:
        UserError: there are no settings; the message names the file with `where`.
        ValueError: they repeat shared values too often.
    """
    values = PlainValues(_MOST_BYTES)
    tree = _plain(checkpoint.get("cfg"), values) or {"model": _plain(checkpoint.get("args"), values)}
    model, task = (tree.get(name) if isinstance(tree, dict) else None for name in ("model", "task"))
    if not isinstance(model, dict):
        raise UserError(f"{where}: it holds no settings of a model, neither cfg nor args; give a checkpoint of fairseq")
    task = task if isinstance(task, dict) else {}
    settings = {**task, **model}
    if "_name" in task:
        settings["task"] = task["_name"]
    settings.setdefault("arch", model.get("_name"))
    return {name: _resolve(value, tree) for name, value in settings.items()}


def _plain(value: Any, values: PlainValues, depth: int = 0) -> Any:
    """Replaces records by plain values: dictionaries, lists, strings and numbers; None for anything else."""
    if depth > _MOST_NESTED:
        return None
    values.count(value)
    if isinstance(value, Record):
        state = value.state if isinstance(value.state, dict) else {}
        if value.name == "argparse.Namespace":
            return _plain(state, values, depth + 1)
        if value.name.startswith("omegaconf."):
            return _plain(state.get("_content", state.get("_val")), values, depth + 1)
        return _plain(value.arguments[0], values, depth + 1) if len(value.arguments) == 1 else None  # an enum or a path
    if isinstance(value, dict):
        return {str(name): _plain(item, values, depth + 1) for name, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item, values, depth + 1) for item in value]
    return value if isinstance(value, str | int | float | bool) else None


def _resolve(value: Any, tree: Mapping[str, Any]) -> Any:
    """Resolves references such as `${model.decoder.embed_dim}`; other values are returned unchanged."""
    found = _REFERENCE.fullmatch(value) if isinstance(value, str) else None
    if found is None:
        return value
    place: Any = tree
    for name in found[1].split("."):
        place = place.get(name) if isinstance(place, dict) else None
    return place
