"""Counts made while examples are generated: dropped, repaired or with unknown words; and the check of these counts."""

import dataclasses
import logging
from collections.abc import Mapping
from typing import Any

from t2t.errors import UserError
from t2t.files.lines import INVALID_UTF8
from t2t.problems.base import Problem

log = logging.getLogger("t2t")

WITH_TABS, JSON = "with a TAB", "in braces like JSON"
"""What `SampleCounts.odd` counts."""

WORTH_A_WARNING = 0.01
"""Share of unknown ids in a feature of a split at which generation warns."""

MANY_REPAIRED = 0.05
"""Share of samples with invalid UTF-8 at which generation warns."""

ENOUGH_TO_JUDGE = 10_000
"""Number of training examples after which generation fails if most of them are unfit."""

_CURE = "check the raw files and their encoding, or the problem's max_length"


@dataclasses.dataclass(frozen=True, kw_only=True)
class SampleCounts:
    """The number of samples read, and what was done with them."""

    read: int = 0
    unfit: int = 0
    """Samples that were repaired, or dropped for another reason than a filter."""
    filtered: int = 0
    """Samples that a filter dropped."""
    repeated: int = 0
    """Extra copies of examples, written because of their weights."""
    dropped: dict[str, int] = dataclasses.field(default_factory=dict)
    """Samples left out, by reason."""
    ids: int = 0
    """Ids of text in all encoded training examples, also in those left out."""
    lost: int = 0
    """Ids of text in those left out."""
    cut: int = 0
    """Texts that were cut into several examples."""
    odd: dict[str, int] = dataclasses.field(default_factory=dict)
    """Samples that a wrong file may have been given for, by what they look like; see `report_odd`."""
    repaired: dict[str, int] = dataclasses.field(default_factory=dict)
    """Repairs to the raw data, by kind of fault."""
    unknown: dict[str, int] = dataclasses.field(default_factory=dict)
    """Ids of unknown words in the examples that are kept, by feature."""
    normalized: dict[str, int] = dataclasses.field(default_factory=dict)
    """Texts whose characters the vocabulary replaces, by feature."""

    def __add__(self, other: "SampleCounts") -> "SampleCounts":
        """Returns the sums of both counts."""
        pairs = {one.name: (getattr(self, one.name), getattr(other, one.name)) for one in dataclasses.fields(self)}
        sums: dict[str, Any] = {
            name: _sum(*pair) if isinstance(pair[0], dict) else sum(pair) for name, pair in pairs.items()
        }
        return SampleCounts(**sums)

    @property
    def judged(self) -> int:
        """Samples that no filter dropped."""
        return self.read - self.filtered

    @property
    def cure(self) -> str:
        """What to do if too few examples are left, for messages."""
        return f"{'loosen the filters (--filter_...), or ' if self.filtered else ''}{_CURE}"

    def describe(self) -> str:
        """Returns `; 12 dropped (10 with an empty side, ...), 2.1% of all ids; repaired: ...`, or an empty string."""
        text = f"; {self.cut:,} long texts cut into several" if self.cut else ""
        if total := sum(self.dropped.values()):
            text += f"; {total:,} dropped ({_format_counts(self.dropped)})"
            text += f", {self.lost / self.ids:.1%} of all ids" if self.lost else ""
        if self.repeated:
            text += f"; {self.repeated:,} repeated by weight"
        return text + (f"; repaired: {_format_counts(self.repaired)}" if self.repaired else "")


def check_fit(problem: Problem, counts: SampleCounts, when: str = "", cure: str = "") -> None:
    """Raises UserError if most of the training data is unfit; `when`: `so far`.

    That is, more than half of the examples; or more than half of the ids, if more than a few lines of another file's
    content hold them: a tenth of the examples.
    """
    found = ""
    if 2 * counts.unfit > counts.judged:
        kept = " that filters keep" if counts.filtered else ""
        found = f"{counts.unfit:,} of {'the first ' if when else ''}{counts.judged:,} examples{kept}"
    elif 2 * counts.lost > counts.ids and 10 * sum(counts.dropped.values()) >= counts.judged:
        found = f"{counts.lost:,} of {'the first ' if when else ''}{counts.ids:,} ids are in examples that are dropped"
    if found:
        raise UserError(
            f"more than half of the training data of {problem.name} is unfit{when and ' ' + when}: "
            f"{found}{counts.describe()}",
            f"{counts.cure}{cure}",
        )


def report_normalized(split: str, normalized: Mapping[str, int], examples: int) -> None:
    """Warns of each feature whose vocabulary changes texts of a split."""
    for name, count in sorted(normalized.items()):
        log.warning(
            "%s: the vocabulary of %s changes characters of %s of %s texts, such as capitals or ligatures; the model "
            "reads and writes only the changed texts; for the original ones, let t2t-datagen learn a vocabulary, or "
            "train the SentencePiece model with --normalization_rule_name=identity",
            split, name, f"{count:,}", f"{examples:,}",
        )  # fmt: skip


def report_odd(split: str, counts: SampleCounts) -> None:
    """Warns of a split most of whose texts have TABs or are JSON, or many of whose lines were not UTF-8."""
    cures = {
        WITH_TABS: "a file of columns is read as text: give a file for each column",
        JSON: "JSON is read as text, braces and keys included: write its texts to a file, one a line",
    }
    for what, count in counts.odd.items():
        if 2 * count > counts.read:
            log.warning("%s: %.1f%% of the texts are %s; if %s", split, 100 * count / counts.read, what, cures[what])
    repaired = counts.repaired.get(INVALID_UTF8, 0)
    if repaired > MANY_REPAIRED * counts.read:
        log.warning(
            "%s: %.1f%% of the samples were not valid UTF-8 (%s lines), and their characters are replaced; find the "
            "encoding of the file and convert it, e.g. iconv -f ISO-8859-1 -t UTF-8",
            split, 100 * repaired / counts.read, f"{repaired:,}",
        )  # fmt: skip


def _sum(one: Mapping[str, int], other: Mapping[str, int]) -> dict[str, int]:
    return {name: one.get(name, 0) + other.get(name, 0) for name in sorted(one.keys() | other.keys())}


def _format_counts(counts: Mapping[str, int]) -> str:
    return ", ".join(f"{count:,} {reason}" for reason, count in sorted(counts.items()))
