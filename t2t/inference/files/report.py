"""Summary printed after decoding or scoring a file: speed and warnings."""

import dataclasses
from collections import Counter
from typing import Any, Self

_SHOWN = 10


@dataclasses.dataclass
class LineCount:
    """A count of lines, and the numbers of the first."""

    count: int = 0
    first: list[int] = dataclasses.field(default_factory=list)
    """Numbers of the first of them, from 1."""

    def note(self, number: int) -> None:
        """Counts a line."""
        self.count += 1
        if len(self.first) < _SHOWN:
            self.first.append(number)

    def add(self, later: "LineCount") -> None:
        """Counts lines that come after these, too."""
        self.count += later.count
        self.first = [*self.first, *later.first][:_SHOWN]

    def __str__(self) -> str:
        numbers = ", ".join(map(str, self.first)) + (", ..." if self.count > len(self.first) else "")
        return f"{_format_count(self.count, 'line')} (number {numbers})"


_NUMBERS = ("tokens", "replaced", "repaired_outputs", "files")
_COUNTS_OF_LINES = ("cut", "cut_outputs", "unscored")
"""Fields of a report that an output's notes have, and that parts of an output add up."""


@dataclasses.dataclass
class Report:
    """Counts of one job; except `done` and `seconds`, they include earlier attempts that were resumed."""

    verb: str = "decoded"
    """What is done to the lines, in the past tense."""
    source: str = ""
    """sha256 of the input; empty for a stream."""
    lines: int = 0
    """Lines of the input before the next window; at the end, all of them, or those to the end of a shard."""
    done: int = 0
    """Lines that this attempt has processed, empty ones included."""
    tokens: int = 0
    """Ids written or scored, end of sequence included, all hypotheses together."""
    earlier_tokens: int = 0
    """Of them, those of earlier attempts."""
    seconds: float = 0.0
    """Time that this attempt has taken."""
    cut: LineCount = dataclasses.field(default_factory=LineCount)
    """Lines whose input was too long and was cut."""
    cut_outputs: LineCount = dataclasses.field(default_factory=LineCount)
    """Lines with an output that was cut at the longest that is allowed."""
    unscored: LineCount = dataclasses.field(default_factory=LineCount)
    """Lines with a target too long to be scored or aligned."""
    replaced: int = 0
    """Outputs with characters that would have broken their line."""
    repaired_outputs: int = 0
    """Lines with an output that the problem had to repair, e.g. a tree with an open bracket."""
    files: int = 0
    """The files that lines name, see `t2t.inference.files.decoding.marks_of`; 0 for texts."""
    repaired: Counter = dataclasses.field(default_factory=Counter)
    """Lines that were repaired while being read, by what was wrong."""

    def notes(self) -> dict[str, Any]:
        """Returns, as plain JSON, what a later attempt and a merge must know."""
        counted = {name: getattr(self, name) for name in ("verb", "source", "lines", *_NUMBERS)}
        noted = {name: dataclasses.asdict(getattr(self, name)) for name in _COUNTS_OF_LINES}
        return {**counted, **noted, "repaired": dict(self.repaired)}

    @classmethod
    def of_finished(cls, notes: dict[str, Any]) -> Self:
        """Returns the report whose `notes` are those of a finished output."""
        report = cls(verb=notes["verb"], source=notes["source"], lines=notes["lines"])
        report.take_over(notes)
        report.repaired.update(notes["repaired"])
        return report

    def take_over(self, notes: dict[str, Any]) -> None:
        """Continues from the `notes` of an earlier attempt, whose lines are read again and so counted as repaired."""
        for name in _NUMBERS:  # earlier versions read texts alone, and did not count cut outputs
            setattr(self, name, notes.get(name, 0))
        for name in _COUNTS_OF_LINES:
            setattr(self, name, LineCount(**notes.get(name, {})))
        self.earlier_tokens = self.tokens

    def add(self, other: "Report") -> None:
        """Adds the counts of lines that come after those of this report."""
        for name in _NUMBERS:
            setattr(self, name, getattr(self, name) + getattr(other, name))
        for name in _COUNTS_OF_LINES:
            getattr(self, name).add(getattr(other, name))
        self.repaired += other.repaired

    def speed(self) -> str:
        """Returns one line with the lines, the time and the speed."""
        seconds = max(self.seconds, 1e-9)
        return (
            f"{self.verb} {self.done:,} lines in {self.seconds:.1f} s: {self.done / seconds:.1f} sentences/s, "
            f"{(self.tokens - self.earlier_tokens) / seconds:,.0f} tokens/s"
        )

    def warnings(self, most_ids: str) -> list[str]:
        """Returns one line for each kind of warning.

        Args:
            most_ids: see `Translator.most_ids`.
        """
        warnings = []
        if self.cut.count:
            warnings.append(f"cut to {most_ids}: {self.cut}")
        if self.cut_outputs.count:
            warnings.append(f"outputs that end at their limit, see --decode_extra_length: {self.cut_outputs}")
        if self.unscored.count:
            what = "scored (nan)" if self.verb == "scored" else "aligned (empty)"
            warnings.append(f"not {what}, since the target is longer than {most_ids}: {self.unscored}")
        warnings += [f"{what} in {_format_count(count, 'line')}" for what, count in sorted(self.repaired.items())]
        if self.repaired_outputs:
            warnings.append(f"outputs that had to be repaired: {_format_count(self.repaired_outputs, 'line')}")
        if self.replaced:
            warnings.append(
                f"line breaks or tabs inside outputs replaced by spaces: {_format_count(self.replaced, 'output')}"
            )
        return warnings


def _format_count(count: int, what: str) -> str:
    return f"{count:,} {what}" + "s" * (count != 1)
