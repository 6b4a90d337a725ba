"""A dictionary of words: lines of word TAB translation."""

from collections import Counter

from t2t.errors import UserError
from t2t.files.lines import split_columns
from t2t.files.source import LineSource

COLUMNS = ("word", "translation")


def read_dictionary(path: str) -> dict[str, str]:
    """Reads a file of words and translations, plain or gzip; if a word occurs twice, its first line counts.

    Raises:
        UserError: there is no such file, a line has other columns, or an entry is not for a single word.
    """
    source = LineSource(path)
    found: dict[str, str] = {}
    for number, line in enumerate(source.lines(Counter()), start=1):
        word, translation = split_columns(line, COLUMNS, str(source), number)
        if word.split() != [word]:
            raise UserError(
                f"{source}: line {number:,} begins with {word[:40]!r}; its first column is one word, without white "
                f"space; correct the file"
            )
        found.setdefault(word, translation)
    return found
