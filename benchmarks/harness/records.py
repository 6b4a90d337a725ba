"""Records of the benchmarks that `python -m benchmarks all` ran: each is a file, and a section of the page."""

import dataclasses
import json
import time
from pathlib import Path
from typing import Any

from benchmarks.harness.machine import machine
from benchmarks.harness.rows import Row, is_disturbed, table, without_disturbed
from t2t.files.atomic import write_atomically


@dataclasses.dataclass(frozen=True, kw_only=True)
class Record:
    """The result of one benchmark."""

    name: str
    benchmark: str
    flags: list[str]
    machine: dict[str, Any]
    """Description of the machine at the start."""
    began: str
    """Start time as text, UTC."""
    began_seconds: float
    """Start time in seconds since the epoch."""
    seconds: float = 0.0
    has_rows: bool = True
    rows: list[Row] | dict[str, Any] = dataclasses.field(default_factory=list)
    """The JSON that it wrote."""
    printed: str = ""
    """Its standard output."""
    failure: str = ""
    """Reason why it has no figures, or empty."""

    @classmethod
    def start(cls, name: str, benchmark: str, flags: list[str]) -> "Record":
        """Returns the record of a benchmark that starts now."""
        began = time.strftime("%Y-%m-%d %H:%M UTC", time.gmtime())
        return cls(name=name, benchmark=benchmark, flags=flags, machine=machine(), began=began,
                   began_seconds=time.time())  # fmt: skip

    def ended(self, rows: Any, printed: str, failure: str, has_rows: bool) -> "Record":
        """Returns a copy with the results and the elapsed time."""
        seconds = time.time() - self.began_seconds
        return dataclasses.replace(
            self, rows=rows, printed=printed, failure=failure, has_rows=has_rows, seconds=seconds
        )

    @property
    def complaint(self) -> str:
        """Reason why it must be run again, or empty."""
        if self.failure:
            return self.failure
        if not self.has_rows:
            return "other processes disturbed it" if "| disturbed |" in self.printed else ""
        disturbed = sum(map(is_disturbed, without_disturbed(self.rows)))
        return f"other processes disturbed {disturbed} of {len(self.rows)} rows" if disturbed else ""

    @property
    def is_finished(self) -> bool:
        """Whether it has all figures, none of them disturbed."""
        return not self.complaint

    def section(self) -> list[str]:
        """Returns its section of the page, without the figures of disturbed turns."""
        command = " ".join(["python -m benchmarks", self.benchmark, *self.flags])
        when = f"{self.began}, {self.seconds:,.0f} s, load before {self.machine['load']:.2f}."
        body = self.printed.rstrip().splitlines()
        if self.failure:
            body = [f"No figures: it {self.failure}"]
        elif self.has_rows:
            body = table(without_disturbed(self.rows))
        return [f"## {self.name}", "", f"    {command}", "", when, "", *body, ""]

    def best_rows(self) -> list[Row]:
        """Returns its rows that compare the best variants, without the figures of disturbed turns."""
        if not self.has_rows:
            return []
        return [{**row, "about": {}} for row in without_disturbed(self.rows) if ".best" in row["work"]]

    def to_dict(self) -> dict[str, Any]:
        """Returns it as plain JSON."""
        return dataclasses.asdict(self)


def read_record(file: Path) -> Record | None:
    """Returns the record in a file, or None if it is missing or has other fields."""
    try:
        return Record(**json.loads(file.read_text()))
    except (OSError, ValueError, TypeError):
        return None


def write_record(record: Record, file: Path) -> None:
    """Writes a record to a file."""
    write_atomically(file, (json.dumps(record.to_dict(), indent=1) + "\n").encode())
