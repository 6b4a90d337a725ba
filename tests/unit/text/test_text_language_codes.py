"""Codes of languages: where they may stand, and how they are found."""

import pytest

from t2t.text.language_codes import LanguageCodes
from tests.errors import refused


def test_a_code_is_found_by_its_language():
    codes = LanguageCodes({"deu_Latn": 7, "eng_Latn": 8})
    assert codes.find("eng_Latn", "") == 8
    assert (codes.source, codes.target) == ("begin", "begin")
    with refused("--target_language=eng_Lat:", "eng_Latn", "deu_Latn"):
        codes.find("eng_Lat", "--target_language=eng_Lat")


@pytest.mark.parametrize("wrong", [{"source": "none"}, {"target": "end"}, {"source": "middle"}])
def test_a_position_where_none_can_stand_is_refused(wrong):
    with refused(*wrong, *map(repr, wrong.values())):
        LanguageCodes({"de": 7}, **wrong)
