"""Reads two parallel files: translations and references."""

import os
from collections import Counter
from collections.abc import Sequence

from t2t.cli.common import warn_of_repairs
from t2t.files.lines import unequal_lengths
from t2t.files.source import LineSource


def read_pairs(translation: str, reference: str) -> tuple[list[str], list[str]]:
    """Returns the lines of both files.

    Raises:
        UserError: no such file, or unequal numbers of lines.
    """
    translations, references = read_all(translation), read_all(reference)
    if len(translations) != len(references):
        raise unequal_lengths(translation, len(translations), reference, len(references))
    return translations, references


def split_references(names: str) -> list[str]:
    """Returns the files of one or several references; the name of an existing file is not split at its commas."""
    return [names] if os.path.exists(names) else [name for part in names.split(",") if (name := part.strip())]


def read_more_references(translation: str, lines: int, references: Sequence[str]) -> dict[str, list[list[str]]]:
    """Returns the option of scores for references besides the first; raises UserError for other numbers of lines."""
    found = [read_all(path) for path in references[1:]]
    for path, read in zip(references[1:], found, strict=True):
        if len(read) != lines:
            raise unequal_lengths(translation, lines, path, len(read))
    return {"more_references": found} if found else {}


def read_all(path: str) -> list[str]:
    """Returns the lines of a file; logs warnings about repaired lines."""
    repaired: Counter = Counter()
    source = LineSource(path)
    lines = list(source.lines(repaired))
    warn_of_repairs(repaired, f"{source}: ")
    return lines
