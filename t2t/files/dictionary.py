"""A dictionary of words: lines of word TAB translation."""

from collections import Counter

from t2t.errors import UserError
from t2t.files.lines import split_columns
from t2t.files.source import LineSource

COLUMNS = ("word", "translation")


def read_dictionary(path: str) -> dict[str, str]:
    """Reads a file of words and translations, plain or gzip; of a word that comes twice, the first line counts.

    Raises:
        UserError: no such file, a line of other columns, or an entry for something else than one word.
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
