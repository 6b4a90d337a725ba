"""English number words: cardinals to a million, ordinals, years, as British usage has them (`one hundred and one`)."""

MILLION = 1_000_000

_SMALL = (
    "zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven", "twelve",
    "thirteen", "fourteen", "fifteen", "sixteen", "seventeen", "eighteen", "nineteen",
)  # fmt: skip
_TENS = ("", "", "twenty", "thirty", "forty", "fifty", "sixty", "seventy", "eighty", "ninety")
_IRREGULAR_ORDINALS = {
    "one": "first", "two": "second", "three": "third", "five": "fifth", "eight": "eighth", "nine": "ninth",
    "twelve": "twelfth",
}  # fmt: skip


def cardinal(number: int, article: bool = False) -> str:
    """Returns the name of a number from 0 to a million.

    Args:
        number: from 0 to 1,000,000.
        article: say `a hundred and five` instead of `one hundred and five`; see `takes_article`.
    """
    words = "one million" if number == MILLION else _below_million(number)
    return "a" + words.removeprefix("one") if article else words


def takes_article(number: int) -> bool:
    """Tells whether `a hundred ...`, `a thousand and ...` or `a million` is good English for a number."""
    return 100 <= number < 200 or 1000 <= number < 1100 or number in (100_000, MILLION)


def ordinal(number: int, article: bool = False) -> str:
    """Returns `first`, `twenty-first`, `one hundred and third`; from 1 to a million."""
    words = cardinal(number, article)
    cut = max(words.rfind(" "), words.rfind("-")) + 1
    head, last = words[:cut], words[cut:]
    if last in _IRREGULAR_ORDINALS:
        return head + _IRREGULAR_ORDINALS[last]
    if last.endswith("y"):
        return head + last[:-1] + "ieth"
    return head + last + "th"


def figure_ordinal(number: int) -> str:
    """Returns an ordinal from 1 to 31 in figures: `1st`, `22nd`, `13th`."""
    ending = "th" if number in (11, 12, 13) else {1: "st", 2: "nd", 3: "rd"}.get(number % 10, "th")
    return f"{number}{ending}"


def year(number: int) -> str:
    """Returns how a year from 1100 to 2099 is read: `nineteen eighty-four`, `nineteen oh five`, `twenty ten`."""
    if 2000 <= number < 2010:
        return cardinal(number)
    century, rest = divmod(number, 100)
    if rest == 0:
        return f"{cardinal(century)} hundred"
    return f"{cardinal(century)} {two_digits(rest)}"


def two_digits(number: int) -> str:
    """Returns the last two digits of a year or a digital clock, from 1 to 99: `oh five`, `forty-two`."""
    return f"oh {cardinal(number)}" if number < 10 else cardinal(number)


def plural(number: int, one: str, many: str) -> str:
    """Returns the form of a noun that goes with a number."""
    return one if number == 1 else many


def _below_hundred(number: int) -> str:
    if number < 20:
        return _SMALL[number]
    tens, ones = divmod(number, 10)
    return _TENS[tens] + (f"-{_SMALL[ones]}" if ones else "")


def _below_thousand(number: int) -> str:
    hundreds, rest = divmod(number, 100)
    if not hundreds:
        return _below_hundred(rest)
    return f"{_SMALL[hundreds]} hundred" + (f" and {_below_hundred(rest)}" if rest else "")


def _below_million(number: int) -> str:
    thousands, rest = divmod(number, 1000)
    if not thousands:
        return _below_thousand(rest)
    link = " and " if 0 < rest < 100 else " "
    return f"{_below_thousand(thousands)} thousand" + (link + _below_thousand(rest) if rest else "")
