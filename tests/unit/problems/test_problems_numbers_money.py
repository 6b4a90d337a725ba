"""Prices of `translate_ende_numbers`, with German written by hand."""

import pytest

PHRASES = dict(
    line.split(" = ")
    for line in """
four euros and fifty cents = vier Euro fünfzig
it costs one euro = es kostet einen Euro
it costs one pound = es kostet ein Pfund
one dollar = ein Dollar
I paid twenty francs = ich habe zwanzig Franken bezahlt
forty pence = vierzig Pence
a million euros = eine Million Euro
""".strip().splitlines()
)
"""Phrases of the grammar, with German written by hand."""


@pytest.mark.parametrize("phrase", PHRASES)
def test_phrases_as_written_by_hand(phrase, number_phrases):
    assert number_phrases[phrase] == PHRASES[phrase]
