"""Codes of languages: where they may stand, and how they are found."""

import pytest

from t2t.errors import UserError
from t2t.text.language_codes import LanguageCodes


def test_a_code_is_found_by_its_language():
    codes = LanguageCodes({"deu_Latn": 7, "eng_Latn": 8})
    assert codes.find("eng_Latn", "") == 8
    assert (codes.source, codes.target) == ("begin", "begin")
    with pytest.raises(UserError) as error:
        codes.find("eng_Lat", "--target_language=eng_Lat")
    assert str(error.value) == (
        "--target_language=eng_Lat: the vocabulary has no code of that language; did you mean eng_Latn or "
        "deu_Latn? it has deu_Latn, eng_Latn"
    )


@pytest.mark.parametrize("places", [{"source": "none"}, {"target": "end"}, {"source": "middle"}])
def test_a_place_where_none_can_stand_is_refused(places):
    with pytest.raises(UserError, match=r"language codes: those of the \w+ stand at '\w+'; they may stand at begin or"):
        LanguageCodes({"de": 7}, **places)
