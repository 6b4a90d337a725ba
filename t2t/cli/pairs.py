"""Reads two parallel files: translations and references."""

import os
from collections import Counter

from t2t.cli.common import warn_of_repairs
from t2t.files.lines import LineSource, unequal_lengths


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


def read_with_references(translation: str, references: str) -> tuple[list[str], list[str], list[list[str]]]:
    """Returns the lines of the translations, of the first reference, and of each other one.

    Raises:
        UserError: no such file, or unequal numbers of lines.
    """
    first, *more = split_references(references)
    translations, lines = read_pairs(translation, first)
    others = [read_all(path) for path in more]
    for path, read in zip(more, others, strict=True):
        if len(read) != len(translations):
            raise unequal_lengths(translation, len(translations), path, len(read))
    return translations, lines, others


def read_all(path: str) -> list[str]:
    """Returns the lines of a file; logs warnings about repaired lines."""
    repaired: Counter = Counter()
    source = LineSource(path)
    lines = list(source.lines(repaired))
    warn_of_repairs(repaired, f"{source}: ")
    return lines
