"""Parameters of EVALB: which labels count, which are alike, where to stop; and the file format that says so.

The keywords are those of EVALB's parameter files (S. Sekine and M. Collins, EVALB, 1997; D. Ellis, 2006).
"""

import dataclasses
import functools
import re
import string
from collections import Counter
from pathlib import Path
from typing import Any

from t2t.errors import UserError, did_you_mean, nearest
from t2t.files.lines import read_lines


@dataclasses.dataclass(frozen=True, kw_only=True)
class Parameters:
    """Settings of the score; the defaults are those of EVALB without a parameter file."""

    debug: int = 0
    """1 prints words and brackets of each sentence, 2 also the brackets that did not match."""
    max_error: int = 10
    """Scoring stops at the second error above this number, as in EVALB."""
    cutoff_length: int = 40
    """Words; the second summary is of sentences of at most this length."""
    labeled: bool = True
    """Whether brackets must have the same label to match."""
    delete_labels: tuple[str, ...] = ()
    """Words with these tags are left out, and brackets with these labels do not count."""
    delete_labels_for_length: tuple[str, ...] = ()
    """Words with these tags do not count in the length of a sentence."""
    quote_labels: tuple[str, ...] = ()
    """Tags of quotation marks, which a parser may take for something that is not deleted, or the other way round."""
    equal_labels: tuple[tuple[str, str], ...] = ()
    equal_words: tuple[tuple[str, str], ...] = ()

    def same_label(self, one: str, other: str) -> bool:
        """Returns whether two labels or tags count as equal."""
        return one == other or (one, other) in self._label_pairs

    def same_word(self, one: str, other: str) -> bool:
        """Returns whether two words count as equal."""
        return one == other or (one, other) in self._word_pairs

    def deletes_bracket(self, label: str) -> bool:
        """Returns whether brackets of a label, without its function tags, do not count."""
        return label in self._deleted_brackets

    @functools.cached_property
    def _label_pairs(self) -> frozenset[tuple[str, str]]:
        return _symmetric(self.equal_labels)

    @functools.cached_property
    def _word_pairs(self) -> frozenset[tuple[str, str]]:
        return _symmetric(self.equal_words)

    @functools.cached_property
    def _deleted_brackets(self) -> frozenset[str]:
        alike = {one for one, other in self._label_pairs if other in self.delete_labels}
        return frozenset(self.delete_labels) | alike


def _symmetric(pairs: tuple[tuple[str, str], ...]) -> frozenset[tuple[str, str]]:
    return frozenset(pairs) | {(other, one) for one, other in pairs}


COLLINS = Parameters(
    delete_labels=("TOP", "-NONE-", ",", ":", "``", "''", "."),
    delete_labels_for_length=("-NONE-",),
    equal_labels=(("ADVP", "PRT"),),
)
"""The settings behind nearly all published figures: those of Collins 1997."""

NEW = dataclasses.replace(
    COLLINS,
    delete_labels=("TOP", "S1", "-NONE-", ",", ":", "``", "''", ".", "?", "!"),
    quote_labels=("``", "''", "POS", "NN", "CD", "VBZ", ":"),
)
"""Collins' with the S1 node and the tags of ? and ! deleted, and quotation marks tagged by mistake put back."""

BUILT_IN = {"COLLINS": COLLINS, "new": NEW, "none": Parameters()}
"""By name; `none` is EVALB without a parameter file, which deletes nothing."""

_NUMBERS = {"DEBUG": "debug", "MAX_ERROR": "max_error", "CUTOFF_LEN": "cutoff_length", "LABELED": "labeled"}
_LISTS = {
    "DELETE_LABEL": "delete_labels",
    "DELETE_LABEL_FOR_LENGTH": "delete_labels_for_length",
    "QUOTE_LABEL": "quote_labels",
}
_PAIRS = {"EQ_LABEL": "equal_labels", "EQ_WORD": "equal_words"}
_KEYWORDS = (*_NUMBERS, *_LISTS, *_PAIRS)
_BLANKS = re.compile(r"\s+", re.ASCII)
_SHORTEST = 3
"""Minimum characters of a line; shorter lines are ignored."""


def get_parameters(name: str) -> Parameters:
    """Returns built-in settings by name, or those of a parameter file.

    Raises:
        UserError: there is no such file, or a line is not valid in EVALB; the message names the line.
    """
    if name in BUILT_IN and not Path(name).exists():
        return BUILT_IN[name]
    if not Path(name).exists():
        near = nearest(Path(name).stem, BUILT_IN) or nearest(name, BUILT_IN)
        hint = f"did you mean {near[0]}, which is built in? " if near else ""
        raise UserError(
            f"parameter file {name}: there is no such file", f"{hint}give a file, or one of {', '.join(BUILT_IN)}"
        )
    return read_parameters(name)


def read_parameters(path: Path | str) -> Parameters:
    """Reads a parameter file: a keyword and its value per line; lines that begin with `#` are comments.

    Raises:
        UserError: the file is unreadable, or a line is not valid in EVALB; the message names the line.
    """
    numbers: dict[str, Any] = {}
    gathered: dict[str, list[Any]] = {}
    for number, line in enumerate(read_lines(path, Counter()), start=1):
        line = line.rstrip(string.whitespace)
        if line.startswith("#") or len(line) < _SHORTEST:
            continue
        keyword, value, *_ = *_BLANKS.split(line, maxsplit=1), ""
        where = f"{path}:{number}"
        if keyword not in _KEYWORDS:
            raise UserError(
                f"{where}: {line!r} has no keyword that is known; {did_you_mean(keyword, _KEYWORDS)}there are "
                f"{', '.join(_KEYWORDS)}",
                "each is at the start of its line",
            )
        if not value:
            raise UserError(f"{where}: {keyword} has no value", f"write `{keyword} VALUE`, or delete the line")
        if keyword in _NUMBERS:
            numbers[_NUMBERS[keyword]] = _number(keyword, value, where)
        elif keyword in _LISTS:
            gathered.setdefault(_LISTS[keyword], []).append(value)
        else:
            gathered.setdefault(_PAIRS[keyword], []).append(_pair(keyword, value, where))
    if "labeled" in numbers:
        numbers["labeled"] = numbers["labeled"] != 0
    lists: dict[str, Any] = {name: tuple(values) for name, values in gathered.items()}
    return Parameters(**numbers, **lists)


def _number(keyword: str, value: str, where: str) -> int:
    try:
        return int(value)
    except ValueError:
        raise UserError(f"{where}: {keyword} is {value!r}", f"it must be a whole number, e.g. `{keyword} 1`") from None


def _pair(keyword: str, value: str, where: str) -> tuple[str, str]:
    words = _BLANKS.split(value)
    if len(words) != 2:
        raise UserError(
            f"{where}: {keyword} has {len(words)} value{'s' * (len(words) != 1)} ({value})",
            "it needs two, which then count as equal",
        )
    return words[0], words[1]
