"""`t2t-vocab`: shows a vocabulary, and applies it to lines of text or ids."""

import re
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from absl import flags

from t2t.checkpoints.run_dir import RunDir
from t2t.cli.common import command
from t2t.cli.flags import ACTION, FILES, command_flags, flag_group
from t2t.cli.pairs import warn_of_repairs
from t2t.errors import UserError
from t2t.files.lines import STANDARD, LineSource, on_one_line
from t2t.files.paths import local_path
from t2t.specs import EOS_ID, PAD_ID
from t2t.text.encoder import TextEncoder
from t2t.text.label import LabelEncoder
from t2t.text.vocabulary_files import read_vocabulary

USAGE = """
Shows a vocabulary, or applies it to standard input, line by line. Reads every kind of vocabulary file that t2t-datagen
makes, and those of Tensor2Tensor: .subwords, and one word a line after <pad> and <EOS>; plain or gzip.

    %s --vocab_file=vocab.translate_ende_wmt8k.8192.subwords
    echo "Hello world." | %s --vocab_file=F --encode
    echo "4928 4071 220 4" | %s --output_dir=run --decode
"""

_SHOWN = 8
_NAMED = re.compile(r"<[A-Za-z/]+>_?")
_OPERATIONS = {
    "encode": "Writes the ids of each line, separated by spaces, without end of sequence.",
    "pieces": "Writes the pieces of each line, separated by spaces; a space within a piece becomes U+2581.",
    "decode": "Writes the text of each line of ids, up to end of sequence; line breaks in it become spaces.",
}


@command_flags
def build_flags(values: flags.FlagValues) -> None:
    with flag_group(values, FILES) as define:
        define.string("vocab_file", "", "File of the vocabulary.")
        define.string("output_dir", "", "Folder of a run whose vocabulary to use instead.")
    with flag_group(values, ACTION) as define:
        for name, text in _OPERATIONS.items():
            define.boolean(name, False, text)


@command(build_flags, USAGE)
def main(values: flags.FlagValues) -> int:
    requested = [name for name in _OPERATIONS if values[name].value]
    if len(requested) > 1:
        raise UserError(f"{' and '.join('--' + name for name in requested)} are given", "one at a time")
    vocabularies = _vocabularies(values.vocab_file, values.output_dir)
    if not requested:
        print("\n\n".join("\n".join(summary(path, encoder)) for path, encoder in vocabularies.items()))
        return 0
    if len(vocabularies) > 1:
        files = ", ".join(map(str, vocabularies))
        raise UserError("the run has several vocabularies", f"name one with --vocab_file: {files}", option=requested[0])
    _apply(requested[0], *vocabularies.values())
    return 0


def _vocabularies(vocab_file: str, output_dir: str) -> dict[Path, TextEncoder]:
    """Returns file -> encoder of the requested vocabularies."""
    if bool(vocab_file) == bool(output_dir):
        found = "both are given" if vocab_file else "neither is given"
        raise UserError(f"--vocab_file, --output_dir: {found}", "name the file of a vocabulary, or the folder of a run")
    if vocab_file:
        return {local_path(vocab_file): read_vocabulary(vocab_file)}
    run = RunDir.open(local_path(output_dir))
    encoders = run.encoders()
    if not encoders:
        raise UserError(
            "the run has no vocabulary", "its problem is not one of text", option="output_dir", value=output_dir
        )
    return {run.vocab_folder / entry.file: encoders[name] for name, entry in run.record.vocabularies.items()}


def summary(path: Path, encoder: TextEncoder) -> list[str]:
    """Returns lines that describe a vocabulary: kind, size, reserved, first and last pieces."""
    size = encoder.vocab_size
    reserved = [] if encoder.kind == LabelEncoder.kind else [PAD_ID, EOS_ID]
    while len(reserved) < size and _NAMED.fullmatch(encoder.piece(len(reserved))):
        reserved.append(len(reserved))
    longest = max(range(size), key=lambda token_id: len(encoder.piece(token_id)))
    first = range(len(reserved), min(size, len(reserved) + _SHOWN))
    last = range(max(first.stop, size - _SHOWN), size)
    return [
        f"file         {path}",
        f"kind         {encoder.kind}",
        f"size         {size:,} ids",
        f"reserved     {_format_pieces(encoder, reserved) or 'none'}",
        f"fingerprint  {encoder.fingerprint}",
        f"longest      {_format_pieces(encoder, [longest])}, {len(encoder.piece(longest))} characters",
        f"first        {_format_pieces(encoder, first)}",
        f"last         {_format_pieces(encoder, last) or 'the same'}",
    ]


def _format_pieces(encoder: TextEncoder, ids) -> str:
    return ", ".join(f"{token_id} {format_piece(encoder.piece(token_id)) or 'empty'}" for token_id in ids)


def format_piece(piece: str) -> str:
    r"""Returns a piece without white space: U+2581 for a space, `<U+0009>` for an unprintable character."""
    return "".join(
        "\u2581" if character == " " else character if character.isprintable() else f"<U+{ord(character):04X}>"
        for character in piece
    )


def _apply(operation: str, encoder: TextEncoder) -> None:
    """Applies `encode`, `pieces` or `decode` to each line of standard input."""
    repaired: Counter = Counter()
    if hasattr(sys.stdout, "reconfigure"):
        sys.stdout.reconfigure(encoding="utf-8")  # the output is data: UTF-8 whatever the locale
    try:
        for number, line in enumerate(LineSource(STANDARD).lines(repaired), start=1):
            print(_converted(operation, encoder, line, number, repaired))
    finally:
        sys.stdout.flush()
        warn_of_repairs(repaired, "standard input: ")


def _converted(operation: str, encoder: TextEncoder, line: str, number: int, repaired: Counter) -> str:
    if operation == "decode":
        ids = list(_read_ids(line, number, encoder.vocab_size))
        if encoder.kind == LabelEncoder.kind and len(ids) != 1:
            raise UserError(
                f"standard input, line {number}: {len(ids)} ids; a class is one id", "write one on each line"
            )
        text = encoder.decode(ids)
        kept = on_one_line(text)
        if kept != text:
            repaired["line breaks replaced by spaces in the text"] += 1
        return kept
    try:
        ids = encoder.encode(line)
    except UserError as error:
        raise error.at(f"standard input, line {number}") from None
    return " ".join(str(one) if operation == "encode" else format_piece(encoder.piece(one)) for one in ids)


def _read_ids(line: str, number: int, size: int) -> Iterator[int]:
    for word in line.split():
        if not re.fullmatch("[0-9]{1,9}", word) or int(word) >= size:
            raise UserError(f"standard input, line {number}: {word[:40]!r} is not an id", f"ids are 0 to {size - 1}")
        yield int(word)
