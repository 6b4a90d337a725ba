"""Tags and codes of languages: separate pieces, which do not change the rest of a vocabulary."""

import numpy as np
import pytest

from t2t.specs import EOS_ID
from t2t.text.byte import ByteEncoder
from t2t.text.encoder import LanguageCodes, TextEncoder
from t2t.text.sentencepiece import SentencePieceEncoder
from t2t.text.tags import find_tag, parse_languages, tag_of, tagged_languages
from tests.errors import refused

LINES = [f"the {word} of {n} <3 things" for n in range(30) for word in ("house", "houses", "mouse")]
TAGS = [tag_of(language) for language in ("de", "fr", "pt-BR")]


@pytest.fixture(scope="module")
def tagged():
    return SentencePieceEncoder.build(LINES, 320, TAGS)


def test_each_tag_is_one_piece_by_its_language(tagged):
    ids = tagged_languages(tagged)
    assert list(ids) == ["de", "fr", "pt-BR"]
    assert [tagged.piece(number) for number in ids.values()] == TAGS == ["<2de>", "<2fr>", "<2pt-BR>"]
    assert find_tag(tagged, "fr", "") == ids["fr"]
    plain = SentencePieceEncoder.build(LINES, 320 - len(TAGS))
    assert tagged_languages(plain) == {}
    for text in ("the houses of mice", "7 things", "é"):  # which have the same pieces in both
        assert [plain.piece(n) for n in plain.encode(text)] == [tagged.piece(n) for n in tagged.encode(text)]


@pytest.mark.parametrize(
    "text", ["", " ", "the houses", "a<2de>b", "<2de> <2fr>", "<2d", "  x  ", "\u2581\u2585 \x00 🎉", "ß<2pt-BR>"]
)
def test_no_text_is_lost(tagged, text):
    assert tagged.decode(tagged.encode(text)) == text
    (ended,) = tagged.encode_ended([text])
    np.testing.assert_array_equal(ended, [*tagged.encode(text), EOS_ID])
    np.testing.assert_array_equal(ended, TextEncoder.encode_ended(tagged, [text])[0])


def test_what_is_no_tag_of_the_vocabulary_or_no_list_of_languages_is_refused(tagged):
    with refused("--target_language=it:", "sentencepiece,", "<2it>;", *TAGS[:2], "--language_tags"):
        find_tag(tagged, "it", "--target_language=it")
    with refused("byte,", "<2de>;"):
        find_tag(ByteEncoder(), "de", "")
    assert parse_languages("en, de,pt-BR") == ["en", "de", "pt-BR"]
    for wrong in ("en,,de", "en,en", "<2de>", "en;de", ","):
        with refused(f"--language_tags={wrong}"):
            parse_languages(wrong)


def test_a_code_is_found_by_its_language_and_stands_where_codes_can():
    codes = LanguageCodes({"deu_Latn": 7, "eng_Latn": 8})
    assert codes.find("eng_Latn", "") == 8
    assert (codes.source, codes.target) == ("begin", "begin")
    with refused("--target_language=eng_Lat:", "eng_Latn", "deu_Latn"):
        codes.find("eng_Lat", "--target_language=eng_Lat")
    for wrong in ({"source": "none"}, {"target": "end"}, {"source": "middle"}):
        with refused(*wrong, *map(repr, wrong.values())):
            LanguageCodes({"de": 7}, **wrong)
