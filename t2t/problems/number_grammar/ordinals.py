"""Ordinals that agree with their nouns: `the twenty-first house`, `das einundzwanzigste Haus`."""

import random
from typing import NamedTuple

from t2t.problems.number_grammar import english, german
from t2t.problems.number_grammar.german import Case, Gender
from t2t.problems.number_grammar.phrase import Phrase, any_of, fill, number_up_to


class _Noun(NamedTuple):
    english: str
    german: str
    gender: Gender
    place: tuple[str, str] | None = None
    """Preposition with article, in English and in German (dative), where one is usual."""


_IN_M, _IN_F, _ON_F = ("in the", "im"), ("in the", "in der"), ("on the", "auf der")
_NOUNS = (
    _Noun("day", "Tag", Gender.M, ("on the", "am")),
    _Noun("month", "Monat", Gender.M, _IN_M),
    _Noun("floor", "Stock", Gender.M, ("on the", "im")),
    _Noun("train", "Zug", Gender.M, ("on the", "im")),
    _Noun("attempt", "Versuch", Gender.M),
    _Noun("visitor", "Besucher", Gender.M),
    _Noun("birthday", "Geburtstag", Gender.M),
    _Noun("letter", "Brief", Gender.M, _IN_M),
    _Noun("week", "Woche", Gender.F, _IN_F),
    _Noun("street", "Straße", Gender.F, _IN_F),
    _Noun("page", "Seite", Gender.F, _ON_F),
    _Noun("row", "Reihe", Gender.F, _IN_F),
    _Noun("question", "Frage", Gender.F),
    _Noun("door", "Tür", Gender.F),
    _Noun("lesson", "Lektion", Gender.F, _IN_F),
    _Noun("year", "Jahr", Gender.N, _IN_M),
    _Noun("house", "Haus", Gender.N, _IN_M),
    _Noun("chapter", "Kapitel", Gender.N, _IN_M),
    _Noun("book", "Buch", Gender.N, _IN_M),
    _Noun("game", "Spiel", Gender.N, _IN_M),
    _Noun("car", "Auto", Gender.N, _IN_M),
    _Noun("window", "Fenster", Gender.N),
)
_PLACES = tuple(noun for noun in _NOUNS if noun.place)
_NOMINATIVE_FRAMES = (
    ("{}", "{}"),
    ("this is {}", "das ist {}"),
    ("where is {}", "wo ist {}"),
    ("{} was the best", "{} war {the} beste"),
)
_ACCUSATIVE_FRAMES = (
    ("I remember {}", "ich erinnere mich an {}"),
    ("we are waiting for {}", "wir warten auf {}"),
    ("he forgot {}", "er hat {} vergessen"),
    ("she counted {}", "sie hat {} gezählt"),
)
_DETERMINERS = (("my", "mein"), ("his", "sein"), ("our", "unser"))
_FIXED_FRAMES = (
    ("the {}", "der {}e"),
    ("for the {} time", "zum {}en Mal"),
    ("we won for the {} time", "wir haben zum {}en Mal gewonnen"),
    ("she lives on the {} floor", "sie wohnt im {}en Stock"),
    ("they are sitting in the {} row", "sie sitzen in der {}en Reihe"),
)


def draw(rng: random.Random) -> Phrase:
    """Returns an ordinal with its noun, alone or in a sentence."""
    number = number_up_to(rng, 99 if rng.random() < 0.5 else 999)
    article = english.takes_article(number) and rng.random() < 0.3
    ordinal, ordinal_german = english.ordinal(number, article), german.ordinal(number, article)
    if article:  # "the hundredth", "my hundredth" is "hundertste" where "the one hundredth" is "einhundertste"
        ordinal = ordinal.removeprefix("a ")
    kind = rng.random()
    if kind < 0.2:
        return fill(any_of(rng, _FIXED_FRAMES), ordinal, ordinal_german)
    noun = any_of(rng, _NOUNS)
    if kind < 0.45:
        return _with_the(any_of(rng, _NOMINATIVE_FRAMES), ordinal, ordinal_german, noun, Case.NOM)
    if kind < 0.65:
        return _with_the(any_of(rng, _ACCUSATIVE_FRAMES), ordinal, ordinal_german, noun, Case.ACC)
    if kind < 0.85:
        noun = any_of(rng, _PLACES)
        return Phrase(f"{noun.place[0]} {ordinal} {noun.english}", f"{noun.place[1]} {ordinal_german}en {noun.german}")
    owner, owner_german = any_of(rng, _DETERMINERS)
    feminine, ending = "e" if noun.gender is Gender.F else "", german.ending_after_a(noun.gender, Case.NOM)
    return Phrase(
        f"{owner} {ordinal} {noun.english}", f"{owner_german}{feminine} {ordinal_german}{ending} {noun.german}"
    )


def _with_the(frame: tuple[str, str], ordinal: str, ordinal_german: str, noun: _Noun, case: Case) -> Phrase:
    the, ending = german.the(noun.gender, case), german.ending_after_the(noun.gender, case)
    return Phrase(
        frame[0].format(f"the {ordinal} {noun.english}"),
        frame[1].format(f"{the} {ordinal_german}{ending} {noun.german}", the=the),
    )
