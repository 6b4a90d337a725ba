"""Table of injected and survived faults."""

import dataclasses
import json
from pathlib import Path


@dataclasses.dataclass
class Row:
    """One kind of fault."""

    fault: str
    injected: int = 0
    survived: int = 0
    seconds: float = 0.0
    """Wall time of all injections together; 0 if they were not timed."""
    failures: list[str] = dataclasses.field(default_factory=list)
    """Error texts, one for each injection that was not survived."""
    note: str = ""
    """Reason why nothing was injected; empty for none."""
    wanted: int = 1
    """Number of injections requested; with fewer the row fails."""

    @property
    def passed(self) -> bool:
        """Whether at least `wanted` faults were injected, and all of them were survived."""
        return self.injected >= self.wanted > 0 and self.survived == self.injected

    def add(self, wrong: str, seconds: float = 0.0) -> None:
        """Counts an injection; `wrong` is its error text, "" if it was survived."""
        self.injected += 1
        self.survived += not wrong
        self.seconds += seconds
        if wrong:
            self.failures.append(wrong)

    def __str__(self) -> str:
        each = f"{self.seconds / self.injected:10.1f}" if self.seconds else f"{'':10}"
        said = [f"{self.fault:44}{self.injected:9}{self.survived:9}{each}  {self.note}".rstrip()]
        missing = (
            [] if self.injected >= self.wanted else [f"not injected: {self.wanted - self.injected} of {self.wanted}"]
        )
        return "\n".join([*said, *(f"    {failure}" for failure in [*missing, *self.failures])])


HEADER = f"{'fault':44}{'injected':>9}{'survived':>9}{'s each':>10}"


def write_json(rows: list[Row], path: Path) -> None:
    """Writes the rows as JSON."""
    path.write_text(json.dumps([dataclasses.asdict(row) for row in rows], indent=2) + "\n")
