"""Lines of word alignments."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from t2t.files.pharaoh import format_links, parse_links
from tests.errors import refused

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
