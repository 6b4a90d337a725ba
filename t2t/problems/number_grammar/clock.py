"""Times of day: `half past six` is `halb sieben`, `twenty-five past six` is `fünf vor halb sieben`."""

import random

from t2t.problems.number_grammar import english, german
from t2t.problems.number_grammar.phrase import Phrase, any_of, fill

Clock = tuple[int, int]
"""An hour from 1 to 12 and a minute from 0 to 59."""

_TIME_FRAMES = (
    ("it is {}", "es ist {}"),
    ("at {}", "um {}"),
    ("until {}", "bis {}"),
    ("it is almost {}", "es ist fast {}"),
)
_EVENT_FRAMES = tuple(
    (f"{subject_en} {verb_en}{{}}", f"{subject_de} {verb_de}")
    for subjects, verbs in (
        (
            (("the train", "der Zug"), ("the bus", "der Bus"), ("the ship", "das Schiff")),
            (("leaves", "fährt{} ab"), ("arrives", "kommt{} an")),
        ),
        (
            (
                ("the film", "der Film"), ("the concert", "das Konzert"), ("the meeting", "die Sitzung"),
                ("the game", "das Spiel"),
            ),
            (("begins", "beginnt{}"), ("ends", "endet{}")),
        ),
        (
            (("the museum", "das Museum"), ("the bank", "die Bank"), ("the school", "die Schule")),
            (("opens", "öffnet{}"), ("closes", "schließt{}")),
        ),
        (
            (("", ""),),
            (
                ("I get up", "ich stehe{} auf"), ("she gets up", "sie steht{} auf"), ("we eat", "wir essen{}"),
                ("he comes home", "er kommt{} nach Hause"), ("she goes to bed", "sie geht{} ins Bett"),
                ("I will call you", "ich rufe dich{} an"), ("the plane lands", "das Flugzeug landet{}"),
            ),
        ),
    )
    for subject_en, subject_de in subjects
    for verb_en, verb_de in verbs
)  # fmt: skip
_WHEN = (("today", "heute"), ("tomorrow", "morgen"), ("every day", "jeden Tag"), ("on Monday", "am Montag"),
         ("on Tuesday", "am Dienstag"), ("on Wednesday", "am Mittwoch"), ("on Thursday", "am Donnerstag"),
         ("on Friday", "am Freitag"), ("on Saturday", "am Samstag"), ("on Sunday", "am Sonntag"))  # fmt: skip
_PARTS_OF_DAY = ((5, 10, "in the morning", "morgens"), (1, 4, "in the afternoon", "nachmittags"),
                 (6, 9, "in the evening", "abends"))  # fmt: skip


def draw(rng: random.Random) -> Phrase:
    """Returns a time, alone or in a sentence."""
    kind = rng.random()
    if kind < 0.15:
        return _spoken(_any_time(rng))
    if kind < 0.3:
        start, end = _spoken(_any_time(rng)), _spoken(_any_time(rng))
        return Phrase(f"from {start.english} until {end.english}", f"von {start.german} bis {end.german}")
    if kind < 0.5:
        return fill(any_of(rng, _TIME_FRAMES), *_in_part_of_day(rng))
    frame = any_of(rng, _EVENT_FRAMES)
    if kind < 0.75:
        time = _in_part_of_day(rng)
        return _event(frame, f" at {time.english}", f" um {time.german}")
    when, time = any_of(rng, _WHEN), _any_style(rng, _any_time(rng))
    return _event(frame, f" {when[0]} at {time.english}", f" {when[1]} um {time.german}")


def spoken_english(hour: int, minute: int) -> str:
    """Returns `six o'clock`, `quarter past six`, `twenty-five to seven`, `three minutes past six`."""
    if minute == 0:
        return f"{english.cardinal(hour)} o'clock"
    if minute > 30:
        return f"{_minutes_english(60 - minute)} to {english.cardinal(_next(hour))}"
    return f"{_minutes_english(minute)} past {english.cardinal(hour)}"


def spoken_german(hour: int, minute: int) -> str:
    """Returns `sechs Uhr`, `Viertel nach sechs`, `fünf nach halb sieben`, `drei Minuten nach sechs`."""
    this, following = german.cardinal(hour), german.cardinal(_next(hour))
    if minute == 0:
        return f"{_before_uhr(hour)} Uhr"
    if minute in (25, 30, 35):
        return {25: "fünf vor ", 30: "", 35: "fünf nach "}[minute] + f"halb {following}"
    if minute > 30:
        return f"{_minutes_german(60 - minute)} vor {following}"
    return f"{_minutes_german(minute)} nach {this}"


def digital_english(hour: int, minute: int) -> str:
    """Returns `six forty-two` or `six oh five`; minutes from 1 to 59."""
    return f"{english.cardinal(hour)} {english.two_digits(minute)}"


def digital_german(hour: int, minute: int) -> str:
    """Returns `sechs Uhr zweiundvierzig` or `ein Uhr fünf`; minutes from 1 to 59."""
    return f"{_before_uhr(hour)} Uhr {german.cardinal(minute)}"


def _event(frame: tuple[str, str], when_english: str, when_german: str) -> Phrase:
    phrase = fill(frame, when_english, when_german)
    return Phrase(phrase.english.strip(), phrase.german.strip())


def _any_time(rng: random.Random) -> Clock:
    hour, fives = rng.randint(1, 12), rng.random() < 0.5
    return hour, 5 * rng.randrange(12) if fives else rng.randrange(60)


def _spoken(time: Clock) -> Phrase:
    return Phrase(spoken_english(*time), spoken_german(*time))


def _any_style(rng: random.Random, time: Clock) -> Phrase:
    """Never alone: `eleven twenty` may be a year, `at eleven twenty` is a time."""
    if time[1] and rng.random() < 0.4:
        return Phrase(digital_english(*time), digital_german(*time))
    return _spoken(time)


def _in_part_of_day(rng: random.Random) -> Phrase:
    hour, minute = _any_time(rng)
    if rng.random() < 0.6:
        return _any_style(rng, (hour, minute))
    first, last, part_english, part_german = any_of(rng, _PARTS_OF_DAY)
    phrase = _any_style(rng, (rng.randint(first, last), minute))
    return Phrase(f"{phrase.english} {part_english}", f"{phrase.german} {part_german}")


def _next(hour: int) -> int:
    return hour % 12 + 1


def _before_uhr(hour: int) -> str:
    return "ein" if hour == 1 else german.cardinal(hour)


def _minutes_english(minutes: int) -> str:
    if minutes in (15, 30):
        return {15: "quarter", 30: "half"}[minutes]
    word = english.cardinal(minutes)
    return word if minutes % 5 == 0 else f"{word} {english.plural(minutes, 'minute', 'minutes')}"


def _minutes_german(minutes: int) -> str:
    if minutes == 15:
        return "Viertel"
    if minutes % 5 == 0:
        return german.cardinal(minutes)
    return "eine Minute" if minutes == 1 else f"{german.cardinal(minutes)} Minuten"
