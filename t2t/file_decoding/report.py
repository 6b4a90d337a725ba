"""What there is to say when a file has been decoded: how fast, and what was not as it should be."""

import dataclasses
from collections import Counter
from typing import Any

_SHOWN = 10


@dataclasses.dataclass
class Report:
    """Counts of one job; those of what was cut and replaced include the earlier attempts that it goes on from."""

    lines: int = 0
    """Lines of the whole input."""
    decoded: int = 0
    """Lines decoded by this attempt, empty ones included."""
    tokens: int = 0
    """Ids that this attempt has written, end of sequence included, all hypotheses together."""
    seconds: float = 0.0
    """Time that this attempt has taken."""
    cut: int = 0
    """Lines that were longer than the model takes."""
    first_cut: list[int] = dataclasses.field(default_factory=list)
    """Numbers of the first of them, from 1."""
    replaced: int = 0
    """Outputs with characters that would have broken their line."""
    mended_outputs: int = 0
    """Lines with an output that the problem had to mend, e.g. a tree with an open bracket."""
    mended: Counter = dataclasses.field(default_factory=Counter)
    """Lines that were mended while being read, by what was wrong."""

    def note_cut(self, number: int) -> None:
        """Counts a line that was cut."""
        self.cut += 1
        if len(self.first_cut) < _SHOWN:
            self.first_cut.append(number)

    def notes(self) -> dict[str, Any]:
        """Returns, as plain JSON, what a later attempt must know."""
        return {name: getattr(self, name) for name in ("cut", "first_cut", "replaced", "mended_outputs")}

    def take_over(self, notes: dict[str, Any]) -> None:
        """Goes on from the `notes` of an earlier attempt."""
        for name in self.notes().keys() & notes.keys():
            setattr(self, name, notes[name])

    def speed(self) -> str:
        """Returns one line: how much in what time."""
        seconds = max(self.seconds, 1e-9)
        return (
            f"decoded {self.decoded:,} lines in {self.seconds:.1f} s: {self.decoded / seconds:.1f} sentences/s, "
            f"{self.tokens / seconds:,.0f} tokens/s"
        )

    def complaints(self, most_ids: str) -> list[str]:
        """Returns a line for each kind of thing that was not as it should be.

        Args:
            most_ids: see `Translator.most_ids`.
        """
        said = []
        if self.cut:
            numbers = ", ".join(map(str, self.first_cut)) + (", ..." if self.cut > len(self.first_cut) else "")
            lines = f"{_counted(self.cut, 'line')} (number {numbers})"
            said.append(f"cut to {most_ids}: {lines}")
        said += [f"{what} in {_counted(count, 'line')}" for what, count in sorted(self.mended.items())]
        if self.mended_outputs:
            said.append(f"outputs that had to be mended: {_counted(self.mended_outputs, 'line')}")
        if self.replaced:
            said.append(f"line breaks or tabs inside outputs replaced by spaces: {_counted(self.replaced, 'output')}")
        return said


def _counted(count: int, what: str) -> str:
    return f"{count:,} {what}" + "s" * (count != 1)
