"""Vocabulary files of a folder of generated data."""

import dataclasses
from collections.abc import Mapping
from pathlib import Path

from t2t.data.files import write_bytes
from t2t.errors import UserError, one_line
from t2t.text import encoder_class
from t2t.text.encoder import TextEncoder

_ANEW = "delete that folder and run t2t-datagen again"


@dataclasses.dataclass(frozen=True, kw_only=True)
class VocabularyFile:
    """The vocabulary of one feature."""

    kind: str
    """Name of the kind, see `t2t.text`."""
    file: str
    """Name of its file in the folder; features that share a vocabulary share the file."""
    size: int
    """Number of ids."""
    fingerprint: str
    """Of the encoder, see `TextEncoder.fingerprint`."""


def save_encoders(folder: Path, encoders: Mapping[str, TextEncoder]) -> dict[str, VocabularyFile]:
    """Writes each vocabulary once, as `vocab.<feature, or shared>.<kind><suffix>`.

    Returns:
        By feature name; features with the same vocabulary name the same file.

    Raises:
        MachineError: the disk is full, or the folder is not writable.
    """
    prints = {name: encoder.fingerprint for name, encoder in encoders.items()}
    records = {}
    for name, encoder in encoders.items():
        users = [other for other in encoders if prints[other] == prints[name]]
        owner = users[0] if len(users) == 1 else "shared" if len(users) == len(encoders) else "-".join(users)
        file = f"vocab.{owner}.{encoder.kind}{encoder.file_suffix}"
        if name == users[0]:
            write_bytes(folder / file, encoder.to_bytes())
        records[name] = VocabularyFile(kind=encoder.kind, file=file, size=encoder.vocab_size, fingerprint=prints[name])
    return records


def read_encoders(folder: Path, records: Mapping[str, VocabularyFile]) -> dict[str, TextEncoder]:
    """Reads the vocabulary of each text feature; features that share a file share the object.

    Raises:
        UserError: a file is missing, damaged, or not the vocabulary that the data was made with.
    """
    loaded: dict[str, TextEncoder] = {}
    for record in records.values():
        if record.file not in loaded:
            loaded[record.file] = _read(Path(folder) / record.file, record)
    return {name: loaded[record.file] for name, record in records.items()}


def _read(path: Path, record: VocabularyFile) -> TextEncoder:
    try:
        encoder = encoder_class(record.kind).from_bytes(path.read_bytes())
    except OSError as error:
        raise UserError(f"cannot read vocabulary {path}: {error.strerror}; {_ANEW}") from error
    except Exception as error:  # whatever a parser says of bytes that it did not write
        raise UserError(f"vocabulary {path} is damaged ({type(error).__name__}: {one_line(error)}); {_ANEW}") from error
    if encoder.fingerprint != record.fingerprint:
        raise UserError(
            f"vocabulary {path} is not the one that the data was made with (fingerprint {encoder.fingerprint[:12]}, "
            f"the manifest has {record.fingerprint[:12]}); put the original file back, or {_ANEW}"
        )
    return encoder
