"""`translate_ende_numbers`: its German against hand-written tables, its splits, and that it is a function."""

import calendar
import random
import zlib
from collections import Counter
from pathlib import Path

import pytest

from t2t.constants import DEV, TEST, TRAIN
from t2t.problems import translate_numbers
from t2t.problems.base import Source
from t2t.problems.number_grammar import KINDS, clock, dates, english, german, measures, things
from t2t.problems.number_grammar.german import Case, Gender
from t2t.problems.number_grammar.phrase import amount_up_to, number_up_to
from t2t.problems.translate_numbers import TranslateEndeNumbers

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
the train leaves at half past six = der Zug fährt um halb sieben ab
the museum closes at quarter to six = das Museum schließt um Viertel vor sechs
we eat at half past four = wir essen um halb fünf
from twenty to one until one o'clock = von zwanzig vor eins bis ein Uhr
I get up at six oh five = ich stehe um sechs Uhr fünf auf
it is one forty = es ist ein Uhr vierzig
the plane lands on Monday at half past eight = das Flugzeug landet am Montag um halb neun
four euros and fifty cents = vier Euro fünfzig
it costs one euro = es kostet einen Euro
it costs one pound = es kostet ein Pfund
one dollar = ein Dollar
I paid twenty francs = ich habe zwanzig Franken bezahlt
forty pence = vierzig Pence
a million euros = eine Million Euro
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
yesterday was the third of December = gestern war der dritte Dezember
he died on March 3rd = er starb am dritten März
the letter of March 3rd, 2003 = der Brief vom dritten März zweitausenddrei
she was born on the first of July = sie wurde am ersten Juli geboren
on Monday the third of May = am Montag, dem dritten Mai
from the third to the sixth of May = vom dritten bis zum sechsten Mai
the year nineteen eighty-four = das Jahr neunzehnhundertvierundachtzig
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
a hundred = hundert
about a million = etwa eine Million
five is an odd number = fünf ist eine ungerade Zahl
two plus three is five = zwei plus drei ist fünf
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
"""Phrases of the grammars, with German written by hand."""


def samples(split: str, seed: int = 0) -> list[tuple[str, str]]:
    drawn = TranslateEndeNumbers().generate_samples(split, Source(Path(), random.Random(f"{seed} {split}")))
    return [(sample["inputs"], sample["targets"]) for sample in drawn]


@pytest.fixture(scope="module")
def splits() -> dict[str, list[tuple[str, str]]]:
    return {split: samples(split) for split in TranslateEndeNumbers.splits}


@pytest.fixture(scope="module")
def many() -> dict[str, str]:
    """English to German, from a large sample; a phrase with two translations fails here."""
    rng, found = random.Random(5), {}
    for draw in KINDS.values():
        for _ in range(40_000):
            phrase = draw(rng)
            assert found.setdefault(phrase.english, phrase.german) == phrase.german, phrase
    return found


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


def test_ordinals_from_first_to_thirty_first():
    table = [tuple(pair.split()) for line in ORDINALS.strip().splitlines() for pair in line.split("|")]
    assert len(table) == 31
    assert [(english.ordinal(n), german.ordinal(n) + "e") for n in range(1, 32)] == table


@pytest.mark.parametrize("number", BIG_ORDINALS)
def test_ordinals_over_a_hundred(number):
    assert (english.ordinal(number), german.ordinal(number) + "e") == BIG_ORDINALS[number]


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


NOUN = {noun.one: noun for noun in things.NOUNS}


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
def test_phrases_as_written_by_hand(phrase, many):
    assert many[phrase] == PHRASES[phrase]


def test_the_grammars_have_many_phrases(many):
    assert len(many) > 150_000


def test_german_words_are_well_formed(many):
    for words in many.values():
        assert words == words.strip()
        assert "  " not in words
        assert "{" not in words
        assert "einsund" not in words
        assert "einshundert" not in words
        assert "einstausend" not in words


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


def test_one_phrase_has_one_translation_across_splits(splits, many):
    for pairs in splits.values():
        for inputs, targets in pairs:
            assert many.setdefault(inputs, targets) == targets


def test_no_phrase_twice_within_or_across_splits(splits):
    inputs = [inputs for pairs in splits.values() for inputs, _ in pairs]
    assert len(inputs) == sum(TranslateEndeNumbers.sizes.values())
    assert len(set(inputs)) == len(inputs)


def test_splits_are_disjoint_whatever_the_seeds(splits):
    other = {inputs for inputs, _ in samples(TRAIN, seed=9)}
    assert not other & {inputs for split in (DEV, TEST) for inputs, _ in splits[split]}
    assert other != {inputs for inputs, _ in splits[TRAIN]}


def test_the_split_is_the_hash_of_the_phrase(splits):
    assert {zlib.crc32(inputs.encode()) % 20 for inputs, _ in splits[DEV]} == {0}
    assert {zlib.crc32(inputs.encode()) % 20 for inputs, _ in splits[TEST]} == {1}
    assert all(" " in inputs for split in (DEV, TEST) for inputs, _ in splits[split])


def test_one_seed_gives_one_sequence():
    assert samples(DEV, seed=2) == samples(DEV, seed=2)


def test_phrases_have_twelve_words_at_most(splits):
    assert max(len(inputs.split()) for pairs in splits.values() for inputs, _ in pairs) == 12


def test_training_phrases_hold_every_word_of_dev_and_test(splits):
    known = {word for inputs, _ in splits[TRAIN] for word in inputs.split()}
    unknown = {word for split in (DEV, TEST) for inputs, _ in splits[split] for word in inputs.split()} - known
    assert [word for word in unknown if not word.isdigit()] == []


@pytest.mark.parametrize("split", [DEV, TEST])
def test_kinds_take_turns(split, monkeypatch):
    kind_of = {}

    def noted(kind, draw):
        def draw_and_note(rng):
            phrase = draw(rng)
            kind_of[phrase.english] = kind
            return phrase

        return draw_and_note

    monkeypatch.setattr(translate_numbers, "KINDS", {kind: noted(kind, draw) for kind, draw in KINDS.items()})
    kinds = [kind_of[inputs] for inputs, _ in samples(split)]
    assert kinds[:7] == ["cardinal", "ordinal", "date", "clock", "price", "quantity", "measure"]
    assert set(Counter(kinds).values()) == {142, 143}


def test_vocabulary_and_examples_fit_the_declared_limits():
    problem = TranslateEndeNumbers()
    problem.name = "translate_ende_numbers"
    problem.with_encoders(problem.build_encoders(Source(Path(), random.Random(0))))
    assert problem.spec().shared_vocabulary
    assert problem.spec().targets.vocab_size == 1024
    drawn = list(problem.generate_samples(DEV, Source(Path(), random.Random(1))))
    arrays = problem.encode_samples(drawn)
    assert [problem.decode_target(array["targets"]) for array in arrays] == [sample["targets"] for sample in drawn]
    assert max(len(array[name]) for array in arrays for name in array) <= 40
    assert max(len(sample[name].encode()) for sample in drawn for name in sample) < problem.max_length


def test_metrics_rank_by_exact_match():
    assert TranslateEndeNumbers.metrics[0] == "accuracy_per_sequence"


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
