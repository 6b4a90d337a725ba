"""Measures: ages, lengths, spans of time, fractions, decimals, percentages, how often (`twice a week`)."""

import math
import random

from t2t.problems.number_grammar import english, german
from t2t.problems.number_grammar.german import Case, Gender
from t2t.problems.number_grammar.phrase import Phrase, amount_up_to, any_of, fill, number_up_to
from t2t.problems.number_grammar.things import Noun

_MINUTE = Noun("minute", "minutes", Gender.F, "Minute", "Minuten")
_HOUR = Noun("hour", "hours", Gender.F, "Stunde", "Stunden")
_DAY = Noun("day", "days", Gender.M, "Tag", "Tage")
_WEEK = Noun("week", "weeks", Gender.F, "Woche", "Wochen")
_MONTH = Noun("month", "months", Gender.M, "Monat", "Monate")
_YEAR = Noun("year", "years", Gender.N, "Jahr", "Jahre")
_METRE = Noun("metre", "metres", Gender.M, "Meter", "Meter")
_KILOMETRE = Noun("kilometre", "kilometres", Gender.M, "Kilometer", "Kilometer")
_LITRE = Noun("litre", "litres", Gender.M, "Liter", "Liter")
_KILO = Noun("kilo", "kilos", Gender.N, "Kilo", "Kilo")
_SPANS = (_MINUTE, _HOUR, _DAY, _WEEK, _MONTH, _YEAR)
_HALVES = (_HOUR, _DAY, _WEEK, _MONTH, _YEAR, _KILOMETRE, _LITRE, _KILO)

_SPAN_FRAMES = (
    (Case.ACC, "{}", "{}"),
    (Case.ACC, "for {}", "{} lang"),
    (Case.ACC, "it takes {}", "es dauert {}"),
    (Case.ACC, "we waited for {}", "wir haben {} lang gewartet"),
    (Case.DAT, "in {}", "in {}"),
    (Case.DAT, "{} ago", "vor {}"),
    (Case.DAT, "after {}", "nach {}"),
    (Case.DAT, "the train leaves in {}", "der Zug fährt in {} ab"),
    (Case.DAT, "he died {} ago", "er starb vor {}"),
)
_SIZE_FRAMES = (
    (_YEAR, "he is {} old", "er ist {} alt"),
    (_YEAR, "my sister is {} old", "meine Schwester ist {} alt"),
    (_YEAR, "the house is {} old", "das Haus ist {} alt"),
    (_MONTH, "the child is {} old", "das Kind ist {} alt"),
    (_METRE, "the tower is {} high", "der Turm ist {} hoch"),
    (_METRE, "the street is {} wide", "die Straße ist {} breit"),
    (_METRE, "the lake is {} deep", "der See ist {} tief"),
    (_KILOMETRE, "the river is {} long", "der Fluss ist {} lang"),
    (_KILOMETRE, "he ran {}", "er ist {} gelaufen"),
)
_VESSELS = (
    Noun("bottle of", "bottles of", Gender.F, "Flasche", "Flaschen"),
    Noun("cup of", "cups of", Gender.F, "Tasse", "Tassen"),
    Noun("glass of", "glasses of", Gender.N, "Glas", "Gläser"),
    Noun("litre of", "litres of", Gender.M, "Liter", "Liter"),
)
_DRINKS = (("water", "Wasser"), ("milk", "Milch"), ("wine", "Wein"), ("tea", "Tee"), ("coffee", "Kaffee"))
_VESSEL_FRAMES = (
    ("I would like {}", "ich möchte {}"),
    ("she drank {}", "sie hat {} getrunken"),
    ("we ordered {}", "wir haben {} bestellt"),
)
_WHOLES = (("the city", "der Stadt"), ("the book", "des Buches"), ("the money", "des Geldes"),
           ("the water", "des Wassers"), ("the people", "der Leute"), ("the houses", "der Häuser"))  # fmt: skip
_PARTS = {3: "Drittel", 4: "Viertel", 5: "Fünftel", 6: "Sechstel", 7: "Siebtel", 8: "Achtel", 9: "Neuntel",
          10: "Zehntel", 11: "Elftel", 12: "Zwölftel", 20: "Zwanzigstel", 100: "Hundertstel"}  # fmt: skip
_OFTEN_FRAMES = (
    ("{}", "{}"),
    ("{} a day", "{} am Tag"),
    ("{} a week", "{} in der Woche"),
    ("{} a month", "{} im Monat"),
    ("{} a year", "{} im Jahr"),
    *(
        (f"{who} {did}", f"{who_german} {did_german}")
        for who, who_german in (("he", "er hat"), ("she", "sie hat"), ("my sister", "meine Schwester hat"))
        for did, did_german in (
            ("called {}", "{} angerufen"),
            ("asked {}", "{} gefragt"),
            ("won {}", "{} gewonnen"),
            ("read the book {}", "das Buch {} gelesen"),
        )
    ),
)


def draw(rng: random.Random) -> Phrase:
    """Returns a measure, alone or in a sentence."""
    return any_of(rng, (_span, _span, _two_spans, _size, _size, _half, _vessels, _fraction, _decimal, _decimal,
                        _percent, _degrees, _often))(rng)  # fmt: skip


def fraction_english(part: int, whole: int) -> str:
    """Returns `two thirds`, `one quarter`."""
    name = {4: "quarter", 100: "hundredth"}.get(whole) or english.ordinal(whole)
    return f"{english.cardinal(part)} {english.plural(part, name, name + 's')}"


def fraction_german(part: int, whole: int) -> str:
    """Returns `zwei Drittel`, `ein Viertel`."""
    return f"{german.count(part, Gender.N, Case.NOM)} {_PARTS[whole]}"


def decimal(number: int, places: list[int]) -> Phrase:
    """Returns `three point one four`, `drei Komma eins vier`."""
    return Phrase(
        f"{english.cardinal(number)} point {' '.join(map(english.cardinal, places))}",
        f"{german.cardinal(number)} Komma {' '.join(map(german.cardinal, places))}",
    )


def times(number: int) -> Phrase:
    """Returns `once`, `twice`, `three times`; `einmal`, `zweimal`, `dreimal`."""
    words = {1: "once", 2: "twice"}.get(number) or f"{english.cardinal(number)} times"
    return Phrase(words, german.count(number, Gender.N, Case.NOM) + "mal")


def _span(rng: random.Random) -> Phrase:
    case, frame, frame_german = any_of(rng, _SPAN_FRAMES)
    return fill((frame, frame_german), *any_of(rng, _SPANS).count(amount_up_to(rng, 999), case))


def _two_spans(rng: random.Random) -> Phrase:
    big, small, most = any_of(rng, ((_HOUR, _MINUTE, 59), (_DAY, _HOUR, 23), (_YEAR, _MONTH, 11)))
    case, frame, frame_german = any_of(rng, _SPAN_FRAMES)
    left, right = big.count(amount_up_to(rng, 99), case), small.count(amount_up_to(rng, most), case)
    return fill((frame, frame_german), f"{left.english} and {right.english}", f"{left.german} und {right.german}")


def _size(rng: random.Random) -> Phrase:
    unit, frame, frame_german = any_of(rng, _SIZE_FRAMES)
    return fill((frame, frame_german), *unit.count(amount_up_to(rng, 9_999), Case.ACC))


def _half(rng: random.Random) -> Phrase:
    """`Three and a half` is one word, `dreieinhalb`."""
    number, unit = rng.randint(1, 99), any_of(rng, _HALVES)
    whole = german.count(number, Gender.N, Case.NOM)
    return Phrase(f"{english.cardinal(number)} and a half {unit.many}", f"{whole}einhalb {unit.german_many}")


def _vessels(rng: random.Random) -> Phrase:
    drink, drink_german = any_of(rng, _DRINKS)
    amount = any_of(rng, _VESSELS).count(amount_up_to(rng, 99), Case.ACC)
    return fill(any_of(rng, _VESSEL_FRAMES), f"{amount.english} {drink}", f"{amount.german} {drink_german}")


def _fraction(rng: random.Random) -> Phrase:
    whole = any_of(rng, tuple(_PARTS))
    part = any_of(rng, [part for part in range(1, whole) if math.gcd(part, whole) == 1])
    words, words_german = fraction_english(part, whole), fraction_german(part, whole)
    if rng.random() < 0.2:
        return Phrase(words, words_german)
    thing, thing_german = any_of(rng, _WHOLES)
    return Phrase(f"{words} of {thing}", f"{words_german} {thing_german}")


def _decimal(rng: random.Random) -> Phrase:
    places = [rng.randrange(10) for _ in range(rng.randint(0, 1))] + [rng.randint(1, 9)]
    number = decimal(rng.choice((0, number_up_to(rng, 9), number_up_to(rng, 999))), places)
    kind = rng.random()
    if kind < 0.5:
        return number
    if kind < 0.75:
        return Phrase(f"{number.english} percent", f"{number.german} Prozent")
    return Phrase(f"the value is {number.english}", f"der Wert ist {number.german}")


def _percent(rng: random.Random) -> Phrase:
    number = rng.randint(1, 100)
    words = f"{english.cardinal(number)} percent"
    words_german = f"{german.count(number, Gender.N, Case.NOM)} Prozent"
    if rng.random() < 0.2:
        return Phrase(words, words_german)
    thing, thing_german = any_of(rng, _WHOLES)
    return Phrase(f"{words} of {thing}", f"{words_german} {thing_german}")


def _degrees(rng: random.Random) -> Phrase:
    number, minus = rng.randint(2, 99), any_of(rng, ("", "minus "))
    words = f"{minus}{english.cardinal(number)} degrees", f"{minus}{german.cardinal(number)} Grad"
    frames = (
        ("{}", "{}"),
        ("it is {}", "es sind {}"),
        ("at {}", "bei {}"),
        ("tomorrow it will be {}", "morgen werden es {}"),
    )
    return fill(any_of(rng, frames), *words)


def _often(rng: random.Random) -> Phrase:
    number = rng.randint(1, 3) if rng.random() < 0.25 else amount_up_to(rng, 999)
    return fill(any_of(rng, _OFTEN_FRAMES), *times(number))
