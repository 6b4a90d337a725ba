"""What became of each mutation."""

import dataclasses
import enum
import json
from collections.abc import Sequence
from pathlib import Path

from tests.mutation.mutation import Mutation


class Verdict(enum.StrEnum):
    """What became of a mutation."""

    CAUGHT = "caught"
    SURVIVED = "survived"
    HUNG = "hung"
    NOT_APPLICABLE = "not applicable"


@dataclasses.dataclass(frozen=True)
class Result:
    """One mutation tried."""

    mutation: Mutation
    verdict: Verdict
    reason: str = ""
    """The first test that failed, or why there is no verdict."""
    seconds: float = 0.0
    """Of wall time."""

    @property
    def is_caught(self) -> bool:
        """Whether a test noticed it."""
        return self.verdict == Verdict.CAUGHT

    def __str__(self) -> str:
        line = f"{self.mutation.name:44}{self.mutation.package:32}{self.verdict:15}{self.seconds:6.0f}  "
        return (line + self.reason).rstrip()


HEADER = f"{'mutation':44}{'package':32}{'verdict':15}{'s':>6}  by"


def summary(results: Sequence[Result]) -> str:
    """Returns one line: how many were caught, and which were not."""
    wrong = [result.mutation.name for result in results if not result.is_caught]
    caught = f"{sum(result.is_caught for result in results)} of {len(results)} mutations caught"
    return f"{caught}; not caught: {', '.join(wrong)}" if wrong else caught


def write_json(results: Sequence[Result], path: Path) -> None:
    """Writes the results for a program to read."""
    rows = [
        {"mutation": result.mutation.name, "package": result.mutation.package, "verdict": result.verdict,
         "reason": result.reason, "seconds": round(result.seconds, 1)}
        for result in results
    ]  # fmt: skip
    path.write_text(json.dumps(rows, indent=2) + "\n")
