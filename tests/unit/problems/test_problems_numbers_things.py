"""Things counted by `translate_ende_numbers`: how German nouns, adjectives and articles agree."""

import pytest

from t2t.problems.number_grammar import german, things
from t2t.problems.number_grammar.german import Case, Gender

NOUN = {noun.one: noun for noun in things.NOUNS}
PHRASES = dict(
    line.split(" = ")
    for line in """
one cat = eine Katze
I see one dog = ich sehe einen Hund
with one dog = mit einem Hund
two cats = zwei Katzen
with three dogs = mit drei Hunden
one old dog = ein alter Hund
one old cat = eine alte Katze
one old house = ein altes Haus
with one big flower = mit einer großen Blume
there is one child = es gibt ein Kind
""".strip().splitlines()
)
"""Phrases of the grammar, with German written by hand."""


@pytest.mark.parametrize(
    ("number", "name", "case", "expected"),
    [
        (1, "cat", Case.NOM, ("one cat", "eine Katze")),
        (2, "cat", Case.NOM, ("two cats", "zwei Katzen")),
        (21, "cat", Case.NOM, ("twenty-one cats", "einundzwanzig Katzen")),
        (1, "dog", Case.ACC, ("one dog", "einen Hund")),
        (3, "dog", Case.DAT, ("three dogs", "drei Hunden")),
        (2, "car", Case.DAT, ("two cars", "zwei Autos")),
        (5, "mouse", Case.ACC, ("five mice", "fünf Mäuse")),
        (1, "child", Case.DAT, ("one child", "einem Kind")),
        (7, "child", Case.DAT, ("seven children", "sieben Kindern")),
        (4, "sheep", Case.NOM, ("four sheep", "vier Schafe")),
    ],
)
def test_things_agree_with_their_number(number, name, case, expected):
    assert NOUN[name].count(number, case) == expected


@pytest.mark.parametrize(
    ("number", "name", "case", "expected"),
    [
        (1, "man", Case.NOM, "ein alter Mann"),
        (1, "man", Case.ACC, "einen alten Mann"),
        (1, "woman", Case.ACC, "eine alte Frau"),
        (1, "woman", Case.DAT, "einer alten Frau"),
        (1, "horse", Case.ACC, "ein altes Pferd"),
        (1, "horse", Case.DAT, "einem alten Pferd"),
        (6, "horse", Case.NOM, "sechs alte Pferde"),
        (6, "horse", Case.DAT, "sechs alten Pferden"),
    ],
)
def test_adjectives_agree_with_their_noun(number, name, case, expected):
    assert things.with_adjective(NOUN[name], number, ("old", "alt"), case).german == expected


def test_articles_and_endings():
    articles = " ".join(german.a(gender, case) for case in Case for gender in Gender)
    assert articles == "ein eine ein einen eine ein einem einer einem"
    articles = " ".join(german.the(gender, case) for case in Case for gender in Gender)
    assert articles == "der die das den die das dem der dem"
    old = " ".join(german.ending_after_a(gender, case) for case in Case for gender in Gender)
    assert old == "er e es en e es en en en"
    third = " ".join(german.ending_after_the(gender, case) for case in Case for gender in Gender)
    assert third == "e e e en e e en en en"
    assert [german.dative_plural(plural) for plural in ("Hunde", "Kinder", "Katzen", "Autos", "Zimmer")] == [
        "Hunden", "Kindern", "Katzen", "Autos", "Zimmern",
    ]  # fmt: skip


@pytest.mark.parametrize("phrase", PHRASES)
def test_phrases_as_written_by_hand(phrase, number_phrases):
    assert number_phrases[phrase] == PHRASES[phrase]
