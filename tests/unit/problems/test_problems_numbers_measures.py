"""Decimals, fractions and measures of `translate_ende_numbers`, with German written by hand."""

import pytest

from t2t.problems.number_grammar import measures

PHRASES = dict(
    line.split(" = ")
    for line in """
he is one year old = er ist ein Jahr alt
in three days = in drei Tagen
in one week = in einer Woche
two years ago = vor zwei Jahren
for one month = einen Monat lang
two and a half hours = zweieinhalb Stunden
one and a half kilos = eineinhalb Kilo
twice a week = zweimal in der Woche
two thirds of the money = zwei Drittel des Geldes
one quarter of the city = ein Viertel der Stadt
one percent = ein Prozent
""".strip().splitlines()
)
"""Phrases of the grammar, with German written by hand."""


def test_measures():
    assert measures.decimal(3, [1, 4]) == ("three point one four", "drei Komma eins vier")
    assert [measures.times(n) for n in (1, 2, 3, 21)] == [
        ("once", "einmal"),
        ("twice", "zweimal"),
        ("three times", "dreimal"),
        ("twenty-one times", "einundzwanzigmal"),
    ]
    assert (measures.fraction_english(3, 4), measures.fraction_german(3, 4)) == ("three quarters", "drei Viertel")
    assert (measures.fraction_english(1, 8), measures.fraction_german(1, 8)) == ("one eighth", "ein Achtel")
    assert (measures.fraction_english(7, 20), measures.fraction_german(7, 20)) == (
        "seven twentieths",
        "sieben Zwanzigstel",
    )


@pytest.mark.parametrize("phrase", PHRASES)
def test_phrases_as_written_by_hand(phrase, number_phrases):
    assert number_phrases[phrase] == PHRASES[phrase]
