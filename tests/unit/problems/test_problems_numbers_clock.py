"""Times of day of `translate_ende_numbers` against a hand-written table."""

import pytest

from t2t.problems.number_grammar import clock

TIMES = {
    (6, 0): ("six o'clock", "sechs Uhr"),
    (6, 5): ("five past six", "fünf nach sechs"),
    (6, 10): ("ten past six", "zehn nach sechs"),
    (6, 15): ("quarter past six", "Viertel nach sechs"),
    (6, 20): ("twenty past six", "zwanzig nach sechs"),
    (6, 25): ("twenty-five past six", "fünf vor halb sieben"),
    (6, 30): ("half past six", "halb sieben"),
    (6, 35): ("twenty-five to seven", "fünf nach halb sieben"),
    (6, 40): ("twenty to seven", "zwanzig vor sieben"),
    (6, 45): ("quarter to seven", "Viertel vor sieben"),
    (6, 50): ("ten to seven", "zehn vor sieben"),
    (6, 55): ("five to seven", "fünf vor sieben"),
    (1, 0): ("one o'clock", "ein Uhr"),
    (1, 5): ("five past one", "fünf nach eins"),
    (12, 30): ("half past twelve", "halb eins"),
    (12, 45): ("quarter to one", "Viertel vor eins"),
    (12, 35): ("twenty-five to one", "fünf nach halb eins"),
    (3, 1): ("one minute past three", "eine Minute nach drei"),
    (3, 22): ("twenty-two minutes past three", "zweiundzwanzig Minuten nach drei"),
    (11, 58): ("two minutes to twelve", "zwei Minuten vor zwölf"),
}
PHRASES = dict(
    line.split(" = ")
    for line in """
the train leaves at half past six = der Zug fährt um halb sieben ab
the museum closes at quarter to six = das Museum schließt um Viertel vor sechs
we eat at half past four = wir essen um halb fünf
from twenty to one until one o'clock = von zwanzig vor eins bis ein Uhr
I get up at six oh five = ich stehe um sechs Uhr fünf auf
it is one forty = es ist ein Uhr vierzig
the plane lands on Monday at half past eight = das Flugzeug landet am Montag um halb neun
""".strip().splitlines()
)
"""Phrases of the grammar, with German written by hand."""


@pytest.mark.parametrize("time", TIMES)
def test_spoken_times(time):
    assert (clock.spoken_english(*time), clock.spoken_german(*time)) == TIMES[time]


def test_digital_times():
    said = {time: (clock.digital_english(*time), clock.digital_german(*time)) for time in ((6, 42), (1, 5), (12, 30))}
    assert said == {
        (6, 42): ("six forty-two", "sechs Uhr zweiundvierzig"),
        (1, 5): ("one oh five", "ein Uhr fünf"),
        (12, 30): ("twelve thirty", "zwölf Uhr dreißig"),
    }


def test_all_spoken_times_differ_in_both_languages():
    times = [(hour, minute) for hour in range(1, 13) for minute in range(60)]
    assert len({clock.spoken_english(*time) for time in times}) == len(times)
    assert len({clock.spoken_german(*time) for time in times}) == len(times)


@pytest.mark.parametrize("phrase", PHRASES)
def test_phrases_as_written_by_hand(phrase, number_phrases):
    assert number_phrases[phrase] == PHRASES[phrase]
