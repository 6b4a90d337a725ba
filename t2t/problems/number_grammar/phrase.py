"""A phrase in both languages, and how the numbers in phrases are drawn."""

import random
from collections.abc import Sequence
from typing import NamedTuple, TypeVar

T = TypeVar("T")


class Phrase(NamedTuple):
    """An English phrase and its one German translation."""

    english: str
    german: str


def fill(frame: tuple[str, str], english: str, german: str) -> Phrase:
    """Puts a phrase into a sentence; both sides of a frame have one place `{}`."""
    return Phrase(frame[0].format(english), frame[1].format(german))


def any_of(rng: random.Random, choices: Sequence[T]) -> T:
    """Returns one of the choices, each as likely."""
    return choices[int(rng.random() * len(choices))]


def number_up_to(rng: random.Random, most: int) -> int:
    """Returns a number from 1 to `most`; small and large ones are alike common, round ones more than by chance.

    How many digits it has is drawn first.
    """
    digits = rng.randint(1, len(str(most)))
    number = rng.randint(10 ** (digits - 1), min(most, 10**digits - 1))
    if digits > 2 and rng.random() < 0.2:
        unit = 10 ** rng.randint(1, digits - 1)
        number -= number % unit
    return number


def amount_up_to(rng: random.Random, most: int) -> int:
    """Returns a number to stand before a noun.

    Above one, numbers that end in 01 are left out: German usage wavers there (`hunderteins`, `hundertein`,
    `hunderteinen Euro`), and every phrase is to have one translation.
    """
    number = number_up_to(rng, most)
    return number + 1 if number > 1 and number % 100 == 1 else number
