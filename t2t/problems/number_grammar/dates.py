"""Dates and years: `on the third of March nineteen eighty-four`, `am dritten März neunzehnhundertvierundachtzig`.

English writes some of them in figures (`March 3rd, 1984`), German always in words.
"""

import calendar
import random

from t2t.problems.number_grammar import english, german
from t2t.problems.number_grammar.phrase import Phrase, any_of, fill

_MONTHS = (
    ("January", "Januar"), ("February", "Februar"), ("March", "März"), ("April", "April"), ("May", "Mai"),
    ("June", "Juni"), ("July", "Juli"), ("August", "August"), ("September", "September"), ("October", "Oktober"),
    ("November", "November"), ("December", "Dezember"),
)  # fmt: skip
_WEEKDAYS = (
    ("Monday", "Montag"), ("Tuesday", "Dienstag"), ("Wednesday", "Mittwoch"), ("Thursday", "Donnerstag"),
    ("Friday", "Freitag"), ("Saturday", "Samstag"), ("Sunday", "Sonntag"),
)  # fmt: skip
_NOMINATIVE_FRAMES = (
    ("{}", "der {}"),
    ("today is {}", "heute ist der {}"),
    ("tomorrow is {}", "morgen ist der {}"),
    ("yesterday was {}", "gestern war der {}"),
)
_DATIVE_FRAMES = (
    ("on {}", "am {}"),
    ("since {}", "seit dem {}"),
    ("before {}", "vor dem {}"),
    ("after {}", "nach dem {}"),
    ("until {}", "bis zum {}"),
    ("the letter of {}", "der Brief vom {}"),
    ("the meeting is on {}", "die Sitzung ist am {}"),
    ("he died on {}", "er starb am {}"),
    ("she was born on {}", "sie wurde am {} geboren"),
    ("the house was sold on {}", "das Haus wurde am {} verkauft"),
    ("we got married on {}", "wir haben am {} geheiratet"),
)
_YEAR_FRAMES = (
    ("in {}", "im Jahr {}"),
    ("the year {}", "das Jahr {}"),
    ("since {}", "seit {}"),
    ("before {}", "vor {}"),
    ("after {}", "nach {}"),
    ("the war ended in {}", "der Krieg endete {}"),
    ("he was born in {}", "er wurde {} geboren"),
    ("the bridge was built in {}", "die Brücke wurde {} gebaut"),
    ("the town was founded in {}", "die Stadt wurde {} gegründet"),
)


def draw(rng: random.Random) -> Phrase:
    """Returns a date or a year, alone or in a sentence."""
    kind = rng.random()
    if kind < 0.2:
        return _in_a_year(rng)
    if kind < 0.3:
        return _on_a_weekday(rng)
    if kind < 0.4:
        return _span(rng)
    month, number = rng.randrange(12), any_year(rng) if rng.random() < 0.5 else None
    day = any_day(rng, month, number)
    dative = rng.random() < 0.65
    frame = any_of(rng, _DATIVE_FRAMES if dative else _NOMINATIVE_FRAMES)
    write = rng.choices((date_english, date_english_month_first, date_english_figures), (3, 2, 2))[0]
    return fill(frame, write(day, month, number), date_german(day, month, number, dative))


def date_english(day: int, month: int, year: int | None = None) -> str:
    """Returns `the third of March`, and the year after it; months count from 0."""
    words = f"the {english.ordinal(day)} of {_MONTHS[month][0]}"
    return words if year is None else f"{words} {english.year(year)}"


def date_english_month_first(day: int, month: int, year: int | None = None) -> str:
    """Returns `March the third`, and the year after it; months count from 0."""
    words = f"{_MONTHS[month][0]} the {english.ordinal(day)}"
    return words if year is None else f"{words} {english.year(year)}"


def date_english_figures(day: int, month: int, year: int | None = None) -> str:
    """Returns `March 3rd` or `March 3rd, 1984`; months count from 0."""
    words = f"{_MONTHS[month][0]} {english.figure_ordinal(day)}"
    return words if year is None else f"{words}, {year}"


def date_german(day: int, month: int, year: int | None = None, dative: bool = False) -> str:
    """Returns `dritte März`, in the dative `dritten März`, and the year after it; months count from 0."""
    words = f"{german.ordinal(day)}{'en' if dative else 'e'} {_MONTHS[month][1]}"
    return words if year is None else f"{words} {german.year(year)}"


def any_day(rng: random.Random, month: int, year: int | None = None) -> int:
    """Returns a day that the month has, in that year if one is given; months count from 0."""
    return rng.randint(1, calendar.monthrange(year or 2000, month + 1)[1])


def any_year(rng: random.Random) -> int:
    """Returns a year from 1100 to 2099, recent ones more often."""
    kind = rng.random()
    if kind < 0.3:
        return rng.randint(2000, 2099)
    return rng.randint(1900, 1999) if kind < 0.6 else rng.randint(1100, 1899)


def _in_a_year(rng: random.Random) -> Phrase:
    number = any_year(rng)
    return fill(any_of(rng, _YEAR_FRAMES), english.year(number), german.year(number))


def _on_a_weekday(rng: random.Random) -> Phrase:
    weekday, month = any_of(rng, _WEEKDAYS), rng.randrange(12)
    day = any_day(rng, month)
    date = date_english(day, month)
    if rng.random() < 0.5:
        return Phrase(f"on {weekday[0]} {date}", f"am {weekday[1]}, dem {date_german(day, month, dative=True)}")
    return Phrase(f"{weekday[0]} {date}", f"{weekday[1]}, der {date_german(day, month)}")


def _span(rng: random.Random) -> Phrase:
    month = rng.randrange(12)
    last = rng.randint(2, calendar.monthrange(2000, month + 1)[1])
    first = rng.randint(1, last - 1)
    return Phrase(
        f"from the {english.ordinal(first)} to {date_english(last, month)}",
        f"vom {german.ordinal(first)}en bis zum {date_german(last, month, dative=True)}",
    )
