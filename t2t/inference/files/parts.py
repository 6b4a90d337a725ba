"""The parts of an output, which shards write next to it, each with a record.

Shard 3 of 100 of the output `G` is `G.shard-00003-of-00100`. `G.shard-00003-of-00100.json`, a sealed file, records what
made the part, what it contains and what was counted. A part without a valid record counts as missing.
"""

import contextlib
import dataclasses
import re
from pathlib import Path
from typing import Any

from t2t.errors import UserError
from t2t.files.atomic import os_errors_as_machine_errors, sha256_of
from t2t.files.output import PartialFile, state_path
from t2t.files.trust import read_record, read_sealed, write_sealed
from t2t.inference.files.report import Report
from t2t.inference.files.shards import Shard

_FORMAT = 1
_RECORD = re.compile(r"\.shard-[0-9]{5}-of-([0-9]{5})\.json")


@dataclasses.dataclass(frozen=True)
class PartRecord:
    """The record of a part."""

    format: int
    source: str
    """sha256 of the input."""
    fingerprint: str
    """Of the input and all else that decides the output; all parts of an output have the same."""
    verb: str
    """See `Report`."""
    before: int
    """Number of lines of the input before the first of the part."""
    lines: int
    size: int
    """Bytes of the part."""
    sha256: str
    """Of these bytes."""
    counted: dict[str, Any]
    """See `Report.notes`."""
    repaired: dict[str, int]
    """See `Report`."""

    def report(self) -> Report:
        """Returns the counts from when the part was made."""
        report = Report(verb=self.verb, lines=self.before + self.lines)
        report.take_over(self.counted)
        report.repaired.update(self.repaired)
        return report


class OutputPart:
    """A file and the record of its content.

    Args:
        path: of the file.
        record_path: of the record.
    """

    def __init__(self, path: Path, record_path: Path):
        self.path, self.record_path = path, record_path

    def record(self) -> PartRecord | None:
        """Returns the record; None if it cannot be read, or the file is missing or has another size."""
        with contextlib.suppress(OSError, ValueError, UserError):
            record = read_record(PartRecord, read_sealed(self.record_path))
            if record.format == _FORMAT and self.path.stat().st_size == record.size:
                return record
        return None

    def is_whole(self, record: PartRecord) -> bool:
        """Returns whether the content of the file matches the record; reads the whole file."""
        return sha256_of(self.path) == record.sha256

    def made_by(self, fingerprint: str) -> PartRecord | None:
        """Returns the record of a file that is complete and made by this job, and removes leftovers of a kill."""
        record = self.record()
        if record is None or record.fingerprint != fingerprint or not self.is_whole(record):
            return None
        state_path(self.path).unlink(missing_ok=True)
        return record

    def write_record(
        self, source: str, fingerprint: str, lines: range, output: PartialFile, report: Report
    ) -> PartRecord:
        """Writes and returns the record of a file that is written and still has its temporary name.

        Raises:
            MachineError: it cannot be written.
        """
        record = PartRecord(
            _FORMAT, source, fingerprint, report.verb, lines.start, len(lines), output.bytes, output.sha256,
            report.notes(), dict(report.repaired),
        )  # fmt: skip
        with os_errors_as_machine_errors(f"cannot write {self.record_path}"):
            write_sealed(self.record_path, dataclasses.asdict(record))
        return record

    def remove(self) -> None:
        """Removes the file, and its record last; missing ones are no error."""
        for path in (self.path, state_path(self.path), self.record_path):
            path.unlink(missing_ok=True)


def part_of(target: str, shard: Shard) -> OutputPart:
    """Returns the part of an output that a shard makes."""
    name = f"{target}.shard-{shard.number:05d}-of-{shard.count:05d}"
    return OutputPart(Path(name), Path(f"{name}.json"))


def merged_output(target: str) -> OutputPart:
    """Returns an output with the record of its merge, which is kept, so that a second merge knows that it is done."""
    path = Path(target)
    return OutputPart(path, path.with_name(f".{path.name}.merged.json"))


def shard_counts(target: str) -> set[int]:
    """Returns the numbers of shards that the records next to an output name; more than one after several jobs."""
    path = Path(target)
    names = (one.name.removeprefix(path.name) for one in path.parent.iterdir() if one.name.startswith(path.name))
    return {int(found[1]) for name in names if (found := _RECORD.fullmatch(name)) and int(found[1])}
