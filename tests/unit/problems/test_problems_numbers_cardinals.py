"""Cardinal numbers of `translate_ende_numbers` against a hand-written table, and read back word by word."""

import random
from collections import Counter

import pytest

from t2t.problems.number_grammar import english, german
from t2t.problems.number_grammar.phrase import amount_up_to, number_up_to

CARDINALS = {
    0: ("zero", "null"),
    1: ("one", "eins"),
    2: ("two", "zwei"),
    3: ("three", "drei"),
    4: ("four", "vier"),
    5: ("five", "fünf"),
    6: ("six", "sechs"),
    7: ("seven", "sieben"),
    8: ("eight", "acht"),
    9: ("nine", "neun"),
    10: ("ten", "zehn"),
    11: ("eleven", "elf"),
    12: ("twelve", "zwölf"),
    13: ("thirteen", "dreizehn"),
    14: ("fourteen", "vierzehn"),
    15: ("fifteen", "fünfzehn"),
    16: ("sixteen", "sechzehn"),
    17: ("seventeen", "siebzehn"),
    18: ("eighteen", "achtzehn"),
    19: ("nineteen", "neunzehn"),
    20: ("twenty", "zwanzig"),
    21: ("twenty-one", "einundzwanzig"),
    30: ("thirty", "dreißig"),
    33: ("thirty-three", "dreiunddreißig"),
    40: ("forty", "vierzig"),
    50: ("fifty", "fünfzig"),
    66: ("sixty-six", "sechsundsechzig"),
    77: ("seventy-seven", "siebenundsiebzig"),
    80: ("eighty", "achtzig"),
    99: ("ninety-nine", "neunundneunzig"),
    100: ("one hundred", "einhundert"),
    101: ("one hundred and one", "einhunderteins"),
    116: ("one hundred and sixteen", "einhundertsechzehn"),
    121: ("one hundred and twenty-one", "einhunderteinundzwanzig"),
    200: ("two hundred", "zweihundert"),
    999: ("nine hundred and ninety-nine", "neunhundertneunundneunzig"),
    1_000: ("one thousand", "eintausend"),
    1_001: ("one thousand and one", "eintausendeins"),
    1_100: ("one thousand one hundred", "eintausendeinhundert"),
    2_345: ("two thousand three hundred and forty-five", "zweitausenddreihundertfünfundvierzig"),
    21_000: ("twenty-one thousand", "einundzwanzigtausend"),
    100_000: ("one hundred thousand", "einhunderttausend"),
    101_000: ("one hundred and one thousand", "einhunderteintausend"),
    999_999: (
        "nine hundred and ninety-nine thousand nine hundred and ninety-nine",
        "neunhundertneunundneunzigtausendneunhundertneunundneunzig",
    ),
    1_000_000: ("one million", "eine Million"),
}
PHRASES = dict(
    line.split(" = ")
    for line in """
a hundred = hundert
about a million = etwa eine Million
five is an odd number = fünf ist eine ungerade Zahl
two plus three is five = zwei plus drei ist fünf
""".strip().splitlines()
)
"""Phrases of the grammar, with German written by hand."""


@pytest.mark.parametrize("number", CARDINALS)
def test_cardinals(number):
    assert (english.cardinal(number), german.cardinal(number)) == CARDINALS[number]


def test_every_german_cardinal_reads_back_as_its_number():
    numbers = [*range(10_000), *range(10_000, 1_000_000, 997), 999_999]
    assert [read_german(german.cardinal(number)) for number in numbers] == numbers


def test_every_english_cardinal_reads_back_as_its_number():
    numbers = [*range(10_000), *range(10_000, 1_000_000, 997), 999_999]
    assert [read_english(english.cardinal(number)) for number in numbers] == numbers


def test_a_hundred_is_hundert():
    said = {number: (english.cardinal(number, True), german.cardinal(number, True)) for number in (100, 105, 1000)}
    assert said == {
        100: ("a hundred", "hundert"),
        105: ("a hundred and five", "hundertfünf"),
        1000: ("a thousand", "tausend"),
    }
    assert (english.cardinal(10**6, True), german.cardinal(10**6, True)) == ("a million", "eine Million")
    assert not any(map(english.takes_article, (1, 99, 200, 1100, 2000, 999_999)))


def test_numbers_before_nouns_never_end_in_01():
    rng = random.Random(3)
    drawn = [amount_up_to(rng, 999_999) for _ in range(20_000)]
    assert {number for number in drawn if number % 100 == 1} == {1}
    assert 1 <= min(drawn) <= max(drawn) <= 999_999


def test_small_and_large_numbers_are_alike_common():
    rng = random.Random(4)
    digits = Counter(len(str(number_up_to(rng, 999_999))) for _ in range(12_000))
    assert set(digits) == {1, 2, 3, 4, 5, 6}
    assert all(1_800 < count < 2_200 for count in digits.values())


@pytest.mark.parametrize("phrase", PHRASES)
def test_phrases_as_written_by_hand(phrase, number_phrases):
    assert number_phrases[phrase] == PHRASES[phrase]


def read_german(words: str) -> int:
    """A number from its German name by looking for the parts that multiply, biggest first."""
    if words == "eine Million":
        return 1_000_000
    for power, name in ((1000, "tausend"), (100, "hundert")):
        if name in words:
            before, after = words.split(name, 1)
            return read_german(before) * power + (read_german(after) if after else 0)
    if "und" in words and words not in ("hundert", "tausend"):
        ones, tens = words.split("und")
        return read_german(tens) + read_german(ones)
    return GERMAN_NUMBERS[words]


def read_english(words: str) -> int:
    """A number from its English name, word by word."""
    total = current = 0
    for word in words.replace("-", " ").replace(" and ", " ").split():
        if word == "thousand":
            total, current = total + current * 1000, 0
        elif word == "hundred":
            current *= 100
        else:
            current += ENGLISH_NUMBERS[word]
    return total + current


_NAMES = {number: names for number, names in CARDINALS.items() if number <= 20 or number in (30, 40, 50, 80)}
ENGLISH_NUMBERS = {names[0]: number for number, names in _NAMES.items()} | {"sixty": 60, "seventy": 70, "ninety": 90}
GERMAN_NUMBERS = {names[1]: number for number, names in _NAMES.items()} | {
    "ein": 1, "sechzig": 60, "siebzig": 70, "neunzig": 90,
}  # fmt: skip
