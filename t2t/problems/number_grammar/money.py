"""Prices: `three euros and fifty cents` is `drei Euro fünfzig`; the names of currencies have no German plural."""

import random
from typing import NamedTuple

from t2t.problems.number_grammar import english, german
from t2t.problems.number_grammar.german import Case, Gender
from t2t.problems.number_grammar.phrase import Phrase, amount_up_to, any_of, fill


class _Coin(NamedTuple):
    one: str
    many: str
    german: str
    gender: Gender
    german_many: str = ""
    """Where it differs from `german`."""


_CENT = _Coin("cent", "cents", "Cent", Gender.M)
_PENNY = _Coin("penny", "pence", "Penny", Gender.M, "Pence")
_CURRENCIES = (
    (_Coin("euro", "euros", "Euro", Gender.M), _CENT),
    (_Coin("euro", "euros", "Euro", Gender.M), _CENT),
    (_Coin("dollar", "dollars", "Dollar", Gender.M), _CENT),
    (_Coin("pound", "pounds", "Pfund", Gender.N), _PENNY),
    (_Coin("franc", "francs", "Franken", Gender.M), None),
)
_ACCUSATIVE_FRAMES = (
    ("it costs {}", "es kostet {}"),
    ("the book costs {}", "das Buch kostet {}"),
    ("a ticket costs {}", "eine Fahrkarte kostet {}"),
    ("the coffee costs {}", "der Kaffee kostet {}"),
    ("the wine cost {}", "der Wein hat {} gekostet"),
    ("that makes {}", "das macht {}"),
    ("I paid {}", "ich habe {} bezahlt"),
    ("she found {}", "sie hat {} gefunden"),
    ("you owe me {}", "du schuldest mir {}"),
    ("he only has {}", "er hat nur {}"),
    ("can you lend me {}", "kannst du mir {} leihen"),
)


def draw(rng: random.Random) -> Phrase:
    """Returns a price, alone or in a sentence."""
    big, small = any_of(rng, _CURRENCIES)
    case = Case.NOM if rng.random() < 0.25 else Case.ACC
    kind = rng.random()
    if small and kind < 0.12:
        price = _coins(rng, rng.randint(1, 99), small, case)
    elif small and kind < 0.55:
        price = _with_small_coins(rng, big, small, case)
    else:
        price = _coins(rng, _amount(rng), big, case)
    return price if case is Case.NOM else fill(any_of(rng, _ACCUSATIVE_FRAMES), *price)


def _amount(rng: random.Random) -> int:
    return english.MILLION if rng.random() < 0.01 else amount_up_to(rng, 999_999)


def _coins(rng: random.Random, number: int, coin: _Coin, case: Case) -> Phrase:
    article = english.takes_article(number) and rng.random() < 0.5
    name = coin.german if number == 1 else coin.german_many or coin.german
    return Phrase(
        f"{english.cardinal(number, article)} {english.plural(number, coin.one, coin.many)}",
        f"{german.count(number, coin.gender, case, article)} {name}",
    )


def _with_small_coins(rng: random.Random, big: _Coin, small: _Coin, case: Case) -> Phrase:
    """From two small coins on: German reads them without their name."""
    price = _coins(rng, amount_up_to(rng, 999), big, case)
    cents = 5 * rng.randint(1, 19) if rng.random() < 0.4 else rng.randint(2, 99)
    if cents >= 10 and rng.random() < 0.3:
        words = f"{price.english} {english.cardinal(cents)}"
    else:
        words = f"{price.english} and {english.cardinal(cents)} {small.many}"
    return Phrase(words, f"{price.german} {german.cardinal(cents)}")
