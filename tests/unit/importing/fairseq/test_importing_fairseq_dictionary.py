"""fairseq's dictionaries, by hand from the rules of its `data/dictionary.py`."""

from pathlib import Path

import pytest

from t2t.importing.fairseq.dictionary import parse_dictionary
from tests.errors import refused

FILE = Path("dict.en.txt")


FIXED = ["<s>", "<pad>", "</s>", "<unk>"]


@pytest.mark.parametrize(
    ("content", "symbols"),
    [
        ("the 12\n\u2028 3\nmadeupword0000 0\n", [*FIXED, "the", "\u2028", "madeupword0000"]),
        # A symbol that is overwritten has the later id.
        ("the 1\na 1\nthe 2 #fairseq:overwrite\n", [*FIXED, "<id_4>", "a", "the"]),
        # The ids of padding, end and unknown stay. Texts with these words get later ids in fairseq; here none do.
        ("<unk> 1 #fairseq:overwrite\n<s> 1 #fairseq:overwrite\n", ["<id_0>", *FIXED[1:], "<id_4>", "<s>"]),
    ],
)
def test_symbols_come_after_the_four_that_are_fixed(content, symbols):
    assert parse_dictionary(content.encode(), FILE) == symbols


@pytest.mark.parametrize("content", [b"the\n", b" 3\n", b"the x\n", b"<unk> 1\n"])
def test_lines_of_no_symbol_are_named(content):
    with refused(FILE):
        parse_dictionary(content, FILE)
