"""fairseq's dictionaries, by hand from the rules of its `data/dictionary.py`."""

from pathlib import Path

import pytest

from t2t.errors import UserError
from t2t.importing.fairseq.dictionary import parse_dictionary

FILE = Path("dict.en.txt")


def test_symbols_come_after_the_four_that_are_fixed():
    found = parse_dictionary("the 12\n\u2028 3\nmadeupword0000 0\n".encode(), FILE)
    assert found == ["<s>", "<pad>", "</s>", "<unk>", "the", "\u2028", "madeupword0000"]


def test_a_symbol_that_is_overwritten_has_the_later_id():
    found = parse_dictionary(b"the 1\na 1\nthe 2 #fairseq:overwrite\n", FILE)
    assert found == ["<s>", "<pad>", "</s>", "<unk>", "<id_4>", "a", "the"]


def test_the_ids_of_padding_end_and_unknown_stay():
    """A text with these words gets later ids in fairseq; here no text does."""
    found = parse_dictionary(b"<unk> 1 #fairseq:overwrite\n<s> 1 #fairseq:overwrite\n", FILE)
    assert found == ["<id_0>", "<pad>", "</s>", "<unk>", "<id_4>", "<s>"]


@pytest.mark.parametrize("content", [b"the\n", b" 3\n", b"the x\n", b"<unk> 1\n"])
def test_lines_of_no_symbol_are_named(content):
    with pytest.raises(UserError, match=r"dict.en.txt"):
        parse_dictionary(content, FILE)
