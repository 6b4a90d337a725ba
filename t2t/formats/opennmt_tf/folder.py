"""Reads the files of an OpenNMT-tf model besides its checkpoint: configuration, vocabularies and description."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import PurePath
from typing import Any

from t2t.errors import UserError, one_line
from t2t.files.trust import MOST_BYTES
from t2t.formats.folder import ModelFolder
from t2t.formats.foreign_vocabulary import ForeignVocabulary
from t2t.formats.opennmt_tf.description import Description, parse_description
from t2t.formats.settings_file import parse_settings

_DESCRIPTION = "model_description.py"
_SPECIAL = ["<blank>", "<s>", "</s>"]
"""The first tokens of a vocabulary file; OpenNMT-tf adds the unknown token at the end."""
_UNKNOWN = "<unk>"
_SPACES, _UNNAMED = "SpaceTokenizer", "OpenNMTTokenizer"
"""The tokenizer without a description, and the one of a description that names no type."""


@dataclass(frozen=True)
class Configuration:
    """Vocabularies and settings from the configuration and the description."""

    description: Description
    source: ForeignVocabulary
    target: ForeignVocabulary
    """The same object as `source` if the tokens are the same."""
    ends_inputs: bool
    """Whether inputs have an end of sequence."""
    params: Mapping[str, Any]
    """The section `params` of the configuration."""
    tokenizers: Mapping[str, str]
    """Tokenizers of texts: setting of `data` -> the tokenizer's type, or the file that describes it."""


def read_configuration(folder: ModelFolder) -> Configuration:
    """Reads the only YAML file of a folder, the vocabularies that it names, and the description.

    Raises:
        UserError: a file is missing or damaged, inputs are not words, or they start with a start token.
    """
    text = folder.read(_DESCRIPTION, MOST_BYTES).decode("utf-8", errors="replace")
    description = parse_description(text, folder.path / _DESCRIPTION)
    settings, where = _read_settings(folder)
    controls = {name: settings.get(f"data.source_sequence_controls.{name}") for name in ("start", "end")}
    if controls["start"] or settings.get("data.source_sequence_controls") is not None:
        raise UserError(
            f"{where}: its inputs begin with a token, or source_sequence_controls is not written as lines of start and "
            f"end; inputs here begin with their first word; it cannot be imported"
        )
    tokens = [_read_tokens(folder, settings, name, where) for name in ("source_vocabulary", "target_vocabulary")]
    start, eos = _SPECIAL[1:]
    target = ForeignVocabulary.of(tokens[1], start, eos, _UNKNOWN, where)
    is_one = tokens[0] == tokens[1]
    source = target if is_one else ForeignVocabulary.of(tokens[0], _SPECIAL[0], eos, _UNKNOWN, where)
    ends = description.ends_inputs if controls["end"] is None else bool(controls["end"])
    params = {name.removeprefix("params."): value for name, value in settings.items() if name.startswith("params.")}
    return Configuration(description, source, target, ends, params, _tokenizers(settings))


def _read_settings(folder: ModelFolder) -> tuple[dict[str, Any], str]:
    """Returns the settings by path, and the name of their file."""
    files = sorted(path.name for path in folder.path.iterdir() if path.suffix in (".yml", ".yaml"))
    if len(files) != 1:
        raise UserError(
            f"--model_dir={folder.path}: {len(files)} files *.yml there; copy the configuration of the training there, "
            f"and the vocabularies that it names"
        )
    where = folder.path / files[0]
    try:
        return parse_settings(folder.read(files[0], MOST_BYTES).decode("utf-8")), str(where)
    except ValueError as error:
        raise UserError(f"{where} is no configuration of OpenNMT-tf ({one_line(error)}); get it again") from error


def _tokenizers(settings: Mapping[str, Any]) -> dict[str, str]:
    """Returns the tokenizers of the configuration other than the default one, which splits texts at spaces."""
    found = {}
    for name in ("source_tokenization", "target_tokenization"):
        path = f"data.{name}"
        is_described = any(setting.startswith(f"{path}.") for setting in settings)
        kind = settings.get(f"{path}.type", _UNNAMED) if is_described else settings.get(path)
        if kind not in (None, _SPACES):
            found[name] = str(kind)
    return found


def _read_tokens(folder: ModelFolder, settings: Mapping[str, Any], name: str, where: str) -> list[str]:
    """Returns the tokens in a file of the folder that the configuration names, and the added unknown token."""
    file = settings.get(f"data.{name}")
    if not isinstance(file, str):
        raise UserError(
            f"{where} has data.{name}={file!r}; a file is wanted, of a model with words of one kind for inputs; it "
            f"cannot be imported"
        )
    inner = PurePath(file)
    try:
        content = folder.read(str(inner) if folder.has(str(inner)) else inner.name, MOST_BYTES).decode("utf-8")
    except UnicodeDecodeError as error:
        raise UserError(f"{where}: its data.{name}, {file}, is not UTF-8 ({error.reason}); get it again") from None
    tokens = [line.rstrip("\r") for line in content.removesuffix("\n").split("\n")]
    if tokens[: len(_SPECIAL)] != _SPECIAL or _UNKNOWN in tokens:
        raise UserError(
            f"{where}: the tokens of {inner.name} begin with {' '.join(tokens[:3])[:60]!r}; those of OpenNMT-tf begin "
            f"with {' '.join(_SPECIAL)} and have no {_UNKNOWN}; get it again"
        )
    return [*tokens, _UNKNOWN]
