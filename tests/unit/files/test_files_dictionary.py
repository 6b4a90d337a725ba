"""Dictionaries of words."""

import gzip

import pytest

from t2t.errors import UserError
from t2t.files.dictionary import read_dictionary


def test_the_first_line_of_a_word_counts(tmp_path):
    path = tmp_path / "words.gz"
    path.write_bytes(gzip.compress(b"Rom\tRome\nHund\tguide dog\nRom\tROM\n"))
    assert read_dictionary(str(path)) == {"Rom": "Rome", "Hund": "guide dog"}


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("a\tb\nc\n", r"words: line 2 has 1 column; a line needs 2, word TAB translation; correct the file"),
        ("a b\tc\n", r"words: line 1 begins with 'a b'; its first column is one word, without white space"),
        ("\tc\n", r"words: line 1 begins with ''; its first column is one word"),
    ],
)
def test_other_lines_are_refused(tmp_path, content, message):
    path = tmp_path / "words"
    path.write_text(content)
    with pytest.raises(UserError, match=message):
        read_dictionary(str(path))
