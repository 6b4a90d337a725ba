"""Reads two parallel files: translations and references."""

from collections import Counter

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


def read_all(path: str) -> list[str]:
    """Returns the lines of a file; logs warnings about repaired lines."""
    repaired: Counter = Counter()
    source = LineSource(path)
    lines = list(source.lines(repaired))
    warn_of_repairs(repaired, f"{source}: ")
    return lines
