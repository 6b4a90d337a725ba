"""Language codes of a vocabulary: tokens around a text that name its language, as imported translators expect them.

Liu et al. 2020 (arXiv:2001.08210), section 2.2, put the code of a text at its end; Fan et al. 2021 (arXiv:2010.11125),
section 2.2, and NLLB at its beginning. A decoder begins with the code of the language that it writes.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

from t2t.errors import UserError, did_you_mean, first_few

BEGIN, END, NONE = "begin", "end", "none"
_PLACES = {"source": (BEGIN, END), "target": (BEGIN, NONE)}


class LanguageMarks(NamedTuple):
    """Ids that stand around the ids of a text."""

    input_start: tuple[int, ...] = ()
    """In front of an input."""
    input_end: tuple[int, ...] = ()
    """Behind the end of sequence of an input."""
    output_start: tuple[int, ...] = ()
    """At the beginning of each output, in training too; a search gets it as a prefix."""


@dataclass(frozen=True)
class LanguageCodes:
    """The codes of a vocabulary, and where they stand.

    Raises:
        UserError: a place is not possible.
    """

    ids: Mapping[str, int]
    """Language, as a user names it -> id of its code."""
    source: str = BEGIN
    """Where the code of an input's language stands: `begin`, or `end`, behind end of sequence."""
    target: str = BEGIN
    """Where the code of an output's language stands: `begin`, or `none` if the model itself begins with a language."""

    def __post_init__(self) -> None:
        for side, places in _PLACES.items():
            if getattr(self, side) not in places:
                raise UserError(
                    f"language codes: those of the {side} stand at {getattr(self, side)!r}; they may stand at "
                    f"{' or '.join(places)}"
                )

    def find(self, language: str, asked: str) -> int:
        """Returns the id of the code of a language.

        Raises:
            UserError: there is none; `asked` begins the message and says what the code is for.
        """
        if language not in self.ids:
            raise UserError(
                f"{asked}: the vocabulary has no code of that language; {did_you_mean(language, self.ids)}it has "
                f"{first_few(sorted(self.ids), ', ')}"
            )
        return self.ids[language]
