"""German number words and the endings around them: cardinals, ordinals, years, articles, adjectives, dative plurals.

Cardinals below a million are one word (Duden): `einundzwanzig`, `eintausendeinhunderteins`. Ordinals add `-te` up to
nineteen and `-ste` from twenty on, with `erste`, `dritte`, `siebte` and `achte` irregular.
"""

from enum import StrEnum

MILLION = 1_000_000

_SMALL = (
    "null", "eins", "zwei", "drei", "vier", "fünf", "sechs", "sieben", "acht", "neun", "zehn", "elf", "zwölf",
    "dreizehn", "vierzehn", "fünfzehn", "sechzehn", "siebzehn", "achtzehn", "neunzehn",
)  # fmt: skip
_TENS = ("", "", "zwanzig", "dreißig", "vierzig", "fünfzig", "sechzig", "siebzig", "achtzig", "neunzig")
_IRREGULAR_ORDINALS = {1: "erst", 3: "dritt", 7: "siebt", 8: "acht"}


class Gender(StrEnum):
    """Grammatical gender."""

    M = "masculine"
    F = "feminine"
    N = "neuter"


class Case(StrEnum):
    """The grammatical cases that the phrases use."""

    NOM = "nominative"
    ACC = "accusative"
    DAT = "dative"


_EIN = {
    Case.NOM: {Gender.M: "ein", Gender.F: "eine", Gender.N: "ein"},
    Case.ACC: {Gender.M: "einen", Gender.F: "eine", Gender.N: "ein"},
    Case.DAT: {Gender.M: "einem", Gender.F: "einer", Gender.N: "einem"},
}
_DER = {
    Case.NOM: {Gender.M: "der", Gender.F: "die", Gender.N: "das"},
    Case.ACC: {Gender.M: "den", Gender.F: "die", Gender.N: "das"},
    Case.DAT: {Gender.M: "dem", Gender.F: "der", Gender.N: "dem"},
}
_STRONG = {Gender.M: "er", Gender.F: "e", Gender.N: "es"}


def cardinal(number: int, article: bool = False) -> str:
    """Returns the name of a number from 0 to a million, as it is counted (`eins`).

    Args:
        number: from 0 to 1,000,000.
        article: where English says `a hundred`: `hundertfünf` instead of `einhundertfünf`.
    """
    if number == MILLION:
        return "eine Million"
    words = _below_million(number)
    return words.removeprefix("ein") if article else words


def ordinal(number: int, article: bool = False) -> str:
    """Returns the stem of an ordinal, to which an ending is added: `erst`, `einundzwanzigst`."""
    rest = number % 100
    head = cardinal(number - rest, article) if number > rest else ""
    if rest in _IRREGULAR_ORDINALS:
        return head + _IRREGULAR_ORDINALS[rest]
    return cardinal(number, article) + ("t" if 0 < rest < 20 else "st")


def year(number: int) -> str:
    """Returns how a year from 1100 to 2099 is read: `neunzehnhundertvierundachtzig`, `zweitausendeinundzwanzig`."""
    if number >= 2000:
        return cardinal(number)
    century, rest = divmod(number, 100)
    return f"{cardinal(century)}hundert" + (cardinal(rest) if rest else "")


def count(number: int, gender: Gender, case: Case, article: bool = False) -> str:
    """Returns a number before its noun: `ein`, `eine`, `einen`, ... agree with it, the others do not change."""
    return a(gender, case) if number == 1 else cardinal(number, article)


def a(gender: Gender, case: Case) -> str:
    """Returns the indefinite article, which is also the number one before a noun."""
    return _EIN[case][gender]


def the(gender: Gender, case: Case) -> str:
    """Returns the definite article."""
    return _DER[case][gender]


def ending_after_the(gender: Gender, case: Case) -> str:
    """Returns the ending of an adjective or ordinal after `der`, `die`, `das`, in the singular."""
    return "en" if case is Case.DAT or (case is Case.ACC and gender is Gender.M) else "e"


def ending_after_a(gender: Gender, case: Case) -> str:
    """Returns the ending of an adjective or ordinal after `ein`, `mein`, in the singular."""
    return _STRONG[gender] if ending_after_the(gender, case) == "e" else "en"


def ending_in_plural(case: Case) -> str:
    """Returns the ending of an adjective between a number and a plural noun: `drei alte`, `mit drei alten`."""
    return "en" if case is Case.DAT else "e"


def dative_plural(plural: str) -> str:
    """Returns the dative of a plural: `Hunden`, `Kindern`, but `Katzen` and `Autos` as they are."""
    return plural if plural.endswith(("n", "s")) else plural + "n"


def _below_hundred(number: int) -> str:
    if number < 20:
        return _SMALL[number]
    tens, ones = divmod(number, 10)
    return (_as_prefix(_SMALL[ones]) + "und" if ones else "") + _TENS[tens]


def _below_thousand(number: int) -> str:
    hundreds, rest = divmod(number, 100)
    if not hundreds:
        return _below_hundred(rest)
    return _as_prefix(_SMALL[hundreds]) + "hundert" + (_below_hundred(rest) if rest else "")


def _below_million(number: int) -> str:
    thousands, rest = divmod(number, 1000)
    if not thousands:
        return _below_thousand(rest)
    return _as_prefix(_below_thousand(thousands)) + "tausend" + (_below_thousand(rest) if rest else "")


def _as_prefix(words: str) -> str:
    """Returns a number as the first part of a word: `eins` loses its s in `einundzwanzig`, `hunderteintausend`."""
    return words[:-1] if words.endswith("eins") else words
