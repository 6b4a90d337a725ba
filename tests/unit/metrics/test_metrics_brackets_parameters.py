"""EVALB's parameter files: every keyword, and one line for each mistake."""

import pytest

from t2t.metrics.brackets import COLLINS, NEW, Parameters, get_parameters, read_parameters
from tests.errors import refused

ALL = """\
## a comment of EVALB's kind ##
DEBUG 1
MAX_ERROR\t7
CUTOFF_LEN 25   \r

LABELED 0
 x
DELETE_LABEL TOP
DELETE_LABEL ''
DELETE_LABEL_FOR_LENGTH -NONE-
QUOTE_LABEL POS
EQ_LABEL ADVP   PRT
EQ_WORD  Example example
EQ_WORD a\tb
#DELETE_LABEL NP
"""


@pytest.fixture
def written(tmp_path):
    def write(text):
        (tmp_path / "own.prm").write_text(text, encoding="utf-8", newline="")
        return tmp_path / "own.prm"

    return write


def test_every_keyword(written):
    assert read_parameters(written(ALL)) == Parameters(
        debug=1, max_error=7, cutoff_length=25, labeled=False, delete_labels=("TOP", "''"),
        delete_labels_for_length=("-NONE-",), quote_labels=("POS",), equal_labels=(("ADVP", "PRT"),),
        equal_words=(("Example", "example"), ("a", "b")),
    )  # fmt: skip
    assert read_parameters(written("")) == Parameters() == get_parameters("none"), "EVALB without a file"
    assert (Parameters().max_error, Parameters().cutoff_length, Parameters().delete_labels) == (10, 40, ())


def test_built_in_settings_go_by_name_unless_a_file_has_it(written, monkeypatch, tmp_path):
    assert get_parameters("COLLINS") is COLLINS
    assert get_parameters("new") is NEW
    assert get_parameters(str(written("LABELED 0"))) == Parameters(labeled=False)
    monkeypatch.chdir(tmp_path)
    (tmp_path / "new").write_text("CUTOFF_LEN 9\n")
    assert get_parameters("new") == Parameters(cutoff_length=9)


def test_equality_goes_both_ways():
    for one, other in (("ADVP", "PRT"), ("PRT", "ADVP"), ("X", "X")):
        assert COLLINS.same_label(one, other)
    assert not COLLINS.same_label("ADVP", "NP")
    assert COLLINS.deletes_bracket("TOP")
    assert not COLLINS.deletes_bracket("S1")
    assert NEW.deletes_bracket("S1")


@pytest.mark.parametrize(("text", "about"), [
    ("DEBUG 0\nDELET_LABEL TOP", ["own.prm:2", "DELET_LABEL", "DELETE_LABEL", "DEBUG", "MAX_ERROR", "EQ_WORD"]),
    ("  DEBUG 0", ["own.prm:1", "DEBUG"]), ("\nDELETE_LABEL  \n", ["own.prm:2", "DELETE_LABEL"]),
    ("MAX_ERROR ten", ["own.prm:1", "MAX_ERROR", "'ten'"]),
    ("EQ_LABEL ADVP", ["own.prm:1", "EQ_LABEL", 1, "(ADVP)"]), ("EQ_WORD a b c", ["own.prm:1", "EQ_WORD", 3]),
])  # fmt: skip
def test_a_line_that_says_nothing_known(written, text, about):
    with refused(*about):
        read_parameters(written(text))


def test_a_file_that_is_not_there(tmp_path):
    with refused("COLLIN.prm", "COLLINS", "new", "none"):
        get_parameters("COLLIN.prm")
    for path in (tmp_path / "own.prm", tmp_path):
        with refused(path):
            get_parameters(str(path))
