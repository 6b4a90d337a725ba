"""Cardinals: alone, in short phrases, in small sums."""

import random

from t2t.problems.number_grammar import english, german
from t2t.problems.number_grammar.phrase import Phrase, any_of, fill, number_up_to

_ANY_NUMBER_FRAMES = (
    ("{}", "{}"),
    ("{}", "{}"),
    ("the answer is {}", "die Antwort ist {}"),
    ("the number is {}", "die Zahl ist {}"),
    ("I counted to {}", "ich habe bis {} gezählt"),
    ("we guessed {}", "wir haben {} geraten"),
)
_LABEL_FRAMES = tuple(
    (frame.replace("...", label), frame_german.replace("...", label_german))
    for frame, frame_german in (
        ("... {}", "... {}"),
        ("this is ... {}", "das ist ... {}"),
        ("where is ... {}", "wo ist ... {}"),
        ("we are looking for ... {}", "wir suchen ... {}"),
    )
    for label, label_german in (
        ("number", "Nummer"), ("room", "Zimmer"), ("page", "Seite"), ("line", "Zeile"), ("chapter", "Kapitel"),
        ("question", "Frage"), ("house number", "Hausnummer"), ("bus", "Bus"),
    )
)  # fmt: skip
_ROUGH_FRAMES = (
    ("{}", "{}"),
    ("about {}", "etwa {}"),
    ("more than {}", "mehr als {}"),
    ("less than {}", "weniger als {}"),
    ("at least {}", "mindestens {}"),
    ("almost {}", "fast {}"),
)
_PAIR_FRAMES = (
    ("from {} to {}", "von {} bis {}"),
    ("between {} and {}", "zwischen {} und {}"),
    ("{} is less than {}", "{} ist weniger als {}"),
    ("either {} or {}", "entweder {} oder {}"),
)


def draw(rng: random.Random) -> Phrase:
    """Returns a number, alone or in a short phrase."""
    kind = rng.random()
    if kind < 0.4:
        number = 0 if rng.random() < 0.02 else number_up_to(rng, 999_999)
        return fill(any_of(rng, _ANY_NUMBER_FRAMES), english.cardinal(number), german.cardinal(number))
    if kind < 0.55:
        number = number_up_to(rng, 9_999)
        return fill(any_of(rng, _LABEL_FRAMES), english.cardinal(number), german.cardinal(number))
    if kind < 0.65:
        return _rough(rng)
    if kind < 0.7:
        return _parity(rng)
    return _pair(rng) if kind < 0.85 else _sum(rng)


def _rough(rng: random.Random) -> Phrase:
    """`A hundred` is `hundert` where `one hundred` is `einhundert`."""
    number = max(2, number_up_to(rng, 999_999))
    if rng.random() < 0.5:
        number = rng.choice((100, 1000, 100_000, english.MILLION, rng.randint(100, 199), rng.randint(1000, 1099)))
    article = english.takes_article(number) and rng.random() < 0.8
    return fill(any_of(rng, _ROUGH_FRAMES), english.cardinal(number, article), german.cardinal(number, article))


def _parity(rng: random.Random) -> Phrase:
    number = number_up_to(rng, 9_999)
    name, name_german = ("an odd", "ungerade") if number % 2 else ("an even", "gerade")
    return Phrase(
        f"{english.cardinal(number)} is {name} number", f"{german.cardinal(number)} ist eine {name_german} Zahl"
    )


def _pair(rng: random.Random) -> Phrase:
    low = number_up_to(rng, 9_999)
    high = low + number_up_to(rng, 999)
    frame = any_of(rng, _PAIR_FRAMES)
    return Phrase(
        frame[0].format(english.cardinal(low), english.cardinal(high)),
        frame[1].format(german.cardinal(low), german.cardinal(high)),
    )


def _sum(rng: random.Random) -> Phrase:
    first, second = number_up_to(rng, 999), number_up_to(rng, 99)
    small, other = rng.randint(2, 20), rng.randint(1, 20)
    left, sign, sign_german, right, result = any_of(rng, (
        (first, "plus", "plus", second, first + second),
        (first + second, "minus", "minus", second, first),
        (small, "times", "mal", other, small * other),
        (small * other, "divided by", "geteilt durch", small, other),
    ))  # fmt: skip
    return Phrase(
        f"{english.cardinal(left)} {sign} {english.cardinal(right)} is {english.cardinal(result)}",
        f"{german.cardinal(left)} {sign_german} {german.cardinal(right)} ist {german.cardinal(result)}",
    )
