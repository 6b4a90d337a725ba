"""Dictionaries of words."""

import gzip

import pytest

from t2t.files.dictionary import read_dictionary
from tests.errors import refused


def test_the_first_line_of_a_word_counts(tmp_path):
    path = tmp_path / "words.gz"
    path.write_bytes(gzip.compress(b"Rom\tRome\nHund\tguide dog\nRom\tROM\n"))
    assert read_dictionary(str(path)) == {"Rom": "Rome", "Hund": "guide dog"}


@pytest.mark.parametrize(("content", "line", "found"), [("a\tb\nc\n", 2, 1), ("a b\tc\n", 1, "b'"), ("\tc\n", 1, "''")])
def test_other_lines_are_refused(tmp_path, content, line, found):
    path = tmp_path / "words"
    path.write_text(content)
    with refused(path, line, found):
        read_dictionary(str(path))
