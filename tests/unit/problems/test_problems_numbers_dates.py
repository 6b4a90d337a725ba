"""Dates and years of `translate_ende_numbers` against a hand-written table, and the calendar."""

import calendar
import random

import pytest

from t2t.problems.number_grammar import dates, english, german

YEARS = {
    1100: ("eleven hundred", "elfhundert"),
    1492: ("fourteen ninety-two", "vierzehnhundertzweiundneunzig"),
    1701: ("seventeen oh one", "siebzehnhunderteins"),
    1900: ("nineteen hundred", "neunzehnhundert"),
    1905: ("nineteen oh five", "neunzehnhundertfünf"),
    1984: ("nineteen eighty-four", "neunzehnhundertvierundachtzig"),
    2000: ("two thousand", "zweitausend"),
    2001: ("two thousand and one", "zweitausendeins"),
    2010: ("twenty ten", "zweitausendzehn"),
    2021: ("twenty twenty-one", "zweitausendeinundzwanzig"),
}
PHRASES = dict(
    line.split(" = ")
    for line in """
yesterday was the third of December = gestern war der dritte Dezember
he died on March 3rd = er starb am dritten März
the letter of March 3rd, 2003 = der Brief vom dritten März zweitausenddrei
she was born on the first of July = sie wurde am ersten Juli geboren
on Monday the third of May = am Montag, dem dritten Mai
from the third to the sixth of May = vom dritten bis zum sechsten Mai
the year nineteen eighty-four = das Jahr neunzehnhundertvierundachtzig
""".strip().splitlines()
)
"""Phrases of the grammar, with German written by hand."""


@pytest.mark.parametrize("year", YEARS)
def test_years(year):
    assert (english.year(year), german.year(year)) == YEARS[year]


def test_dates_in_words_and_figures():
    assert dates.date_english(3, 2, 2021) == "the third of March twenty twenty-one"
    assert dates.date_english_month_first(3, 2) == "March the third"
    assert dates.date_english_figures(3, 2, 2021) == "March 3rd, 2021"
    assert [english.figure_ordinal(day) for day in (1, 2, 11, 12, 13, 21, 22, 23, 30)] == [
        "1st", "2nd", "11th", "12th", "13th", "21st", "22nd", "23rd", "30th",
    ]  # fmt: skip
    assert dates.date_german(3, 2, 2021) == "dritte März zweitausendeinundzwanzig"
    assert dates.date_german(3, 2, dative=True) == "dritten März"


def test_no_date_beyond_the_end_of_its_month():
    rng = random.Random(1)
    drawn = {(year, month, dates.any_day(rng, month, year)) for year in (1900, 2000) for month in [1, 3] * 300}
    assert max(day for year, month, day in drawn if (year, month) == (1900, 1)) == 28
    assert max(day for year, month, day in drawn if (year, month) == (2000, 1)) == 29
    assert all(day <= calendar.monthrange(year, month + 1)[1] for year, month, day in drawn)


@pytest.mark.parametrize("phrase", PHRASES)
def test_phrases_as_written_by_hand(phrase, number_phrases):
    assert number_phrases[phrase] == PHRASES[phrase]
