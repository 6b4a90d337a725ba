"""Small files: tables of records, dictionaries of words, lines of word alignments."""

import gzip

import pytest
from hypothesis import given
from hypothesis import strategies as st

from t2t.files.pharaoh import format_links, parse_links
from t2t.files.tables import aligned, to_tsv
from t2t.inference.alignment import read_dictionary
from tests.errors import refused

RECORDS = [{"name": "a", "n": 12345, "x": 0.123456, "ok": True}, {"name": "longer", "n": None, "x": None, "ok": False}]


def test_tables_are_aligned_and_tab_separated_values_have_all_digits_and_one_line_a_record():
    assert aligned(RECORDS).splitlines() == [
        "name         n       x  ok",
        "a       12,345  0.1235  True",
        "longer                  False",
    ]
    assert to_tsv(RECORDS) == "name\tn\tx\tok\na\t12345\t0.123456\tTrue\nlonger\t\t\tFalse\n"
    assert to_tsv([{"text": "a\tb\nc", "several": [1.5, 2]}]) == "text\tseveral\na b c\t1.5 2\n"
    assert aligned([]) == to_tsv([]) == ""


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


LINKS = st.lists(st.tuples(st.integers(0, 300), st.integers(0, 300)), max_size=9)


def test_sure_and_possible_links_of_a_line():
    assert parse_links("0-0 2-1  10?3\t4p5 ", "gold", 7) == (((0, 0), (2, 1)), ((10, 3), (4, 5)))
    assert parse_links("", "gold", 1) == ((), ())


@given(LINKS)
def test_what_is_written_is_read(links):
    assert parse_links(format_links(links), "file", 1) == (tuple(links), ())


@pytest.mark.parametrize("text", ["0", "1-", "-1", "0-0-0", "0:1", "a-b", "0--1", "²-1"])
def test_anything_else_is_refused(text):
    with refused("gold:", "1,007", repr(text)):
        parse_links(f"0-0 {text}", "gold", 1007)
