"""Ordinal numbers of `translate_ende_numbers` against hand-written tables."""

import pytest

from t2t.problems.number_grammar import english, german

ORDINALS = """
first erste|second zweite|third dritte|fourth vierte|fifth fünfte|sixth sechste|seventh siebte|eighth achte
ninth neunte|tenth zehnte|eleventh elfte|twelfth zwölfte|thirteenth dreizehnte|fourteenth vierzehnte
fifteenth fünfzehnte|sixteenth sechzehnte|seventeenth siebzehnte|eighteenth achtzehnte|nineteenth neunzehnte
twentieth zwanzigste|twenty-first einundzwanzigste|twenty-second zweiundzwanzigste|twenty-third dreiundzwanzigste
twenty-fourth vierundzwanzigste|twenty-fifth fünfundzwanzigste|twenty-sixth sechsundzwanzigste
twenty-seventh siebenundzwanzigste|twenty-eighth achtundzwanzigste|twenty-ninth neunundzwanzigste
thirtieth dreißigste|thirty-first einunddreißigste
"""
BIG_ORDINALS = {
    100: ("one hundredth", "einhundertste"),
    101: ("one hundred and first", "einhunderterste"),
    103: ("one hundred and third", "einhundertdritte"),
    108: ("one hundred and eighth", "einhundertachte"),
    112: ("one hundred and twelfth", "einhundertzwölfte"),
    120: ("one hundred and twentieth", "einhundertzwanzigste"),
    307: ("three hundred and seventh", "dreihundertsiebte"),
    1000: ("one thousandth", "eintausendste"),
}
PHRASES = dict(
    line.split(" = ")
    for line in """
the third = der dritte
the twenty-first street = die einundzwanzigste Straße
the twenty-first birthday = der einundzwanzigste Geburtstag
the second street = die zweite Straße
on the first page = auf der ersten Seite
we are waiting for the third train = wir warten auf den dritten Zug
for the third time = zum dritten Mal
my first day = mein erster Tag
our second week = unsere zweite Woche
his eighth year = sein achtes Jahr
""".strip().splitlines()
)
"""Phrases of the grammar, with German written by hand."""


def test_ordinals_from_first_to_thirty_first():
    table = [tuple(pair.split()) for line in ORDINALS.strip().splitlines() for pair in line.split("|")]
    assert len(table) == 31
    assert [(english.ordinal(n), german.ordinal(n) + "e") for n in range(1, 32)] == table


@pytest.mark.parametrize("number", BIG_ORDINALS)
def test_ordinals_over_a_hundred(number):
    assert (english.ordinal(number), german.ordinal(number) + "e") == BIG_ORDINALS[number]


@pytest.mark.parametrize("phrase", PHRASES)
def test_phrases_as_written_by_hand(phrase, number_phrases):
    assert number_phrases[phrase] == PHRASES[phrase]
