"""Vocabularies in a folder: one file for each, shared by the features that share the vocabulary."""

import dataclasses
import re
from collections.abc import Mapping
from pathlib import Path

from t2t.errors import UserError, one_line
from t2t.files.atomic import os_errors_as_machine_errors, remedy_of, write_atomically
from t2t.files.lines import errors_of_reading, gunzipped
from t2t.files.paths import local_path
from t2t.files.trust import MOST_BYTES, PLAIN_NAME, PlainName, check_inside
from t2t.registry import VOCABULARIES
from t2t.text.encoder import TextEncoder, fingerprint_of
from t2t.text.imported import BPE_HEADER, HEADER
from t2t.text.subword_build import ESCAPE_CHARACTERS
from t2t.text.words import RESERVED, UNKNOWN

_LONGEST_OWNER = 120
"""Characters of a list of features in a file's name."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class VocabularyFile:
    """The vocabulary of one feature."""

    kind: str
    """Name of the kind, see `t2t.text`."""
    file: PlainName
    """Name of its file in the folder."""
    size: int
    """Number of ids."""
    fingerprint: str
    """Of the encoder, see `TextEncoder.fingerprint`."""


def describe_encoders(encoders: Mapping[str, TextEncoder]) -> dict[str, VocabularyFile]:
    """Returns the records of vocabularies in a folder, by feature name; equal vocabularies share a file.

    Raises:
        UserError: the name of a feature gives no valid file name.
    """
    prints = {name: encoder.fingerprint for name, encoder in encoders.items()}
    records = {}
    for name, encoder in encoders.items():
        users = [other for other in encoders if prints[other] == prints[name]]
        owner = users[0] if len(users) == 1 else "shared" if len(users) == len(encoders) else "-".join(users)
        if len(owner) > _LONGEST_OWNER:
            owner = f"{users[0]}-and-{len(users) - 1}-more"
        file = f"vocab.{owner}.{encoder.kind}{encoder.file_suffix}"
        if not PLAIN_NAME.match(file):
            raise UserError(
                f"feature {name!r}: its vocabulary's file would be {file!r}", "name it in letters and digits"
            )
        records[name] = VocabularyFile(kind=encoder.kind, file=file, size=encoder.vocab_size, fingerprint=prints[name])
    return records


def save_encoders(folder: Path, encoders: Mapping[str, TextEncoder]) -> dict[str, VocabularyFile]:
    """Writes each vocabulary once, as `vocab.<feature, or shared>.<kind><suffix>`, and returns their description.

    Raises:
        MachineError: the disk is full, or the folder is not writable.
    """
    records = describe_encoders(encoders)
    written = set()
    for name, record in records.items():
        if record.file not in written:
            with os_errors_as_machine_errors(f"cannot write {Path(folder) / record.file}"):
                write_atomically(Path(folder) / record.file, encoders[name].to_bytes())
            written.add(record.file)
    return records


def read_encoders(folder: Path, records: Mapping[str, VocabularyFile], cure: str) -> dict[str, TextEncoder]:
    """Reads the vocabulary of each text feature; features that share a file share the object.

    `cure` ends each message: what to do about a file that is missing, damaged or a different vocabulary.

    Raises:
        UserError: a file is missing, damaged, or another vocabulary than described.
    """
    loaded: dict[str, TextEncoder] = {}
    for record in records.values():
        if record.file not in loaded:
            loaded[record.file] = _read(Path(folder) / record.file, record, cure)
    return {name: loaded[record.file] for name, record in records.items()}


def read_vocabulary(path: Path | str) -> TextEncoder:
    """Reads a vocabulary of any kind from a file, plain or gzip; detects the kind from its content, else its name.

    Raises:
        UserError: the file is missing, cannot be read, or is a vocabulary of no known kind; the message names it.
    """
    path = local_path(path)
    with errors_of_reading(f"vocabulary {path}"):
        content = gunzipped(path.read_bytes(), path, MOST_BYTES)
    found = _kind_of(content)
    if found in (None, "word_list") and _has_numbers(content):
        raise UserError(
            f"vocabulary {path}: its lines hold a word and a number; give the .model that belongs to a .vocab of "
            "SentencePiece, or only the words, one on a line after <pad> and <EOS>, the last one UNK: { printf "
            f"'<pad>\\n<EOS>\\n'; awk '{{print $1}}' {path.name}; echo UNK",
            "} > words.txt",
        )
    kind = found or _kind_of_suffix(Path(path.name.removesuffix(".gz")).suffix)
    if kind is None:
        raise UserError(
            f"vocabulary {path}: it starts with {content[:40]!r}, as no known kind does",
            "give a SentencePiece model, a vocabulary that t2t-datagen made, or one of Tensor2Tensor (.subwords, or "
            "words after <pad> and <EOS>)",
        )
    try:
        return _parse(kind, content)
    except UserError as error:
        raise error.at(f"vocabulary {path}") from None


def _parse(kind: str, content: bytes) -> TextEncoder:
    encoder: TextEncoder = VOCABULARIES.get(kind).from_bytes(content)
    return encoder


def _kind_of(content: bytes) -> str | None:
    """Returns the kind of vocabulary, detected from the content; None if it is unknown."""
    lines = [line.strip() for line in content.split(b"\n")]
    if lines[0].startswith(b"bytes: "):
        return "byte"
    if content.startswith(HEADER):
        return "piece_table"
    if content.startswith(BPE_HEADER):
        return "bpe"
    if lines[:3] == [b"<pad>", b"</s>", b"<unk>"]:
        return "token"
    if lines[0] == b"<pad>_" or all(re.fullmatch(rb"'.*'|\".*\"", line) for line in lines[:2]) or _has_pieces(lines):
        return "subword"
    if lines[:2] == [b"<pad>", b"<EOS>"]:
        return "word_list"
    # A SentencePiece model is a list of messages, each with a text first: field 1 and a length, field 1 again.
    return "sentencepiece" if content[:1] == content[2:3] == b"\n" else None


def _kind_of_suffix(suffix: str) -> str | None:
    """Returns the kind of vocabularies whose files end so; text files and unknown endings may be of any."""
    known = {entry.value.file_suffix: entry.name for entry in VOCABULARIES.entries() if entry.value}
    return {**known, ".model": "sentencepiece", ".txt": None}.get(suffix)


def _has_numbers(content: bytes) -> bool:
    """Returns whether the last words of a list have counts or scores behind them."""
    lines = [line.strip() for line in content.rstrip().rsplit(b"\n", 5)[1:]]
    words = [line for line in lines if line.decode("utf-8", "replace") not in (*RESERVED, *UNKNOWN)]
    return bool(words) and all(re.fullmatch(rb"\S+[ \t]+-?[0-9][0-9.e-]*", line) for line in words)


def _has_pieces(lines: list[bytes]) -> bool:
    """Returns whether unquoted lines are subword pieces: all characters of escapes, and over 2% ends of tokens."""
    escapes = {character.encode() for character in ESCAPE_CHARACTERS}
    return escapes <= set(lines) and 50 * sum(line.endswith(b"_") for line in lines) > len(lines)


def _read(path: Path, record: VocabularyFile, cure: str) -> TextEncoder:
    check_inside(path.parent, path)
    try:
        content = path.read_bytes()
    except FileNotFoundError:
        raise UserError(f"vocabulary {path} is missing", cure) from None
    except OSError as error:
        raise UserError(f"cannot read vocabulary {path}: {error.strerror}", f"{remedy_of(error, cure)}") from error
    found = fingerprint_of(record.kind, content)
    if found != record.fingerprint:
        raise UserError(
            f"vocabulary {path} is not what was written (fingerprint {found[:12]}, expected {record.fingerprint[:12]})",
            cure,
        )
    try:
        return _parse(record.kind, content)
    except Exception as error:  # parsers may raise anything for damaged content
        raise UserError(f"vocabulary {path} is damaged ({type(error).__name__}: {one_line(error)})", cure) from error
