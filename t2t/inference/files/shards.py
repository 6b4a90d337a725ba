"""Shards of a file, ranges of whole windows of its lines that several machines can process; joining their outputs.

Windows are independent of each other, and the seed of a sample is the number of its line in the whole file. So the
concatenated outputs of the shards are the output that one machine would write.

The part of the output `G` that shard 3 of 100 writes is `G.shard-00003-of-00100`, with its `OutputRecord` beside it in
`G.shard-00003-of-00100.json`; a part without a valid record counts as missing. Merging writes `G` under a temporary
name. Before it is renamed and the parts are removed, `.G.merged.json` records what it contains. So after a kill, the
next merge knows whether to join the parts or only to remove the remaining ones.
"""

import dataclasses
import hashlib
import itertools
import os
import re
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path

from t2t.errors import UserError
from t2t.files.atomic import os_errors_as_machine_errors
from t2t.files.line_index import LineIndex, kept_index
from t2t.files.lines import LineSource
from t2t.files.output import IsValid, OutputRecord, PartialFile, always, check_output, is_stream
from t2t.inference.files.report import Report

MOST_SHARDS = 99_999
"""Numbers have five digits, so that names sort as they count."""

SIDES = ("prefixes", "constraints")
"""Kinds of side files of the input: prefixes of outputs, and constraints on them."""

CommandOf = Callable[[str], str]
"""Returns the command that makes the part of a shard, given as e.g. `3/100`."""

_NAME = re.compile(r"([0-9]{1,9})/([0-9]{1,9})")
_RECORD = re.compile(r"\.shard-[0-9]{5}-of-([0-9]{5})\.json")
_CHUNK = 1 << 24
_SHOWN = 3


@dataclasses.dataclass(frozen=True)
class Shard:
    """One of the shards of a file."""

    number: int
    """From 0."""
    count: int
    """Of all shards; there may be more than the file has windows."""

    def __post_init__(self) -> None:
        if not 0 <= self.number < self.count <= MOST_SHARDS:
            raise UserError(
                f"shard {self}: K/N is shard K of N, from 0/N to N-1/N, and N at most {MOST_SHARDS:,}",
                "give e.g. 0/100 for the first of a hundred",
            )

    def __str__(self) -> str:
        return f"{self.number}/{self.count}"

    def lines(self, total: int, window: int) -> range:
        """Returns the lines of the shard, from 0; shards differ by at most one window.

        Args:
            total: lines of the file.
            window: lines of a window; the last of the file may have fewer.
        """
        windows = -(-total // window)
        first, end = (windows * number // self.count for number in (self.number, self.number + 1))
        return range(min(first * window, total), min(end * window, total))


def parse_shard(text: str) -> Shard:
    """Parses a shard such as `3/100`.

    Raises:
        UserError: the text has another form, or there is no such shard.
    """
    found = _NAME.fullmatch(text)
    if not found:
        raise UserError(f"shard {text[:40]!r}: it is written K/N", "give e.g. 0/100 for the first of a hundred")
    return Shard(int(found[1]), int(found[2]))


def check_sharded(source: str, target: str) -> None:
    """Checks that an input can be divided into shards, and that their parts can be written next to the output.

    Raises:
        UserError: the input or the output is a stream; see also `check_output`.
        MachineError: see `check_output`.
    """
    read = LineSource(source)
    if read.is_stream:
        raise UserError(f"{read}: shards are of a file, and this can be read only once", "save it as a file")
    check_output(target)
    if is_stream(target):
        raise UserError(f"{target}: parts go next to the output, which is not a file", "name one")


def source_index(source: str, target: str) -> LineIndex:
    """Returns the index of an input, kept next to the output until the parts are merged; raises as `kept_index`."""
    return kept_index(source, index_paths(target)[0])


def side_index(side: str, path: str, target: str) -> LineIndex:
    """Returns the index of a side file; `side` is one of SIDES. See `source_index`."""
    return kept_index(path, index_paths(target)[1 + SIDES.index(side)])


def index_paths(target: str) -> tuple[Path, ...]:
    """Returns where the indexes of the input and of the files of SIDES are kept."""
    return tuple(Path(f"{target}.{name}.json") for name in ("lines", *SIDES))


def part_of(target: str, shard: Shard, fingerprint: str | None = None, is_valid: IsValid = always) -> PartialFile:
    """Returns the part of an output that a shard makes, whose record is kept; for the others see `open_output`."""
    name = f"{target}.shard-{shard.number:05d}-of-{shard.count:05d}"
    return PartialFile(Path(name), fingerprint, is_valid, Path(f"{name}.json"))


def merged_output(target: str, fingerprint: str | None = None, is_valid: IsValid = always) -> PartialFile:
    """Returns the output of a merge, whose record is kept, so that a second merge knows that it is done."""
    path = Path(target)
    record_path = path.with_name(f".{path.name}.merged.json")
    return PartialFile(Path(os.path.realpath(path)), fingerprint, is_valid, record_path)


def division_of(target: str) -> int | None:
    """Returns the number of shards that an output is divided into; None if it has no parts.

    Raises:
        UserError: there are parts of several divisions.
    """
    counts = _shard_counts(target)
    if len(counts) > 1:
        raise UserError(
            f"{target}: parts of {' and of '.join(map(str, counts))} shards are next to it",
            f"remove those that are not wanted, such as {target}.shard-*-of-{counts[0]:05d}*",
        )
    return counts[0] if counts else None


def _shard_counts(target: str) -> list[int]:
    """Returns the numbers of shards that the records next to an output name; more than one after several jobs."""
    path = Path(target)
    names = (one.name.removeprefix(path.name) for one in path.parent.iterdir() if one.name.startswith(path.name))
    return sorted({int(found[1]) for name in names if (found := _RECORD.fullmatch(name)) and int(found[1])})


def merge_parts(source: str, target: str, command_of: CommandOf = "--shard={}".format) -> Report:
    """Joins the parts of an output, then removes them. Returns the counts from when they were made.

    Args:
        source: the input that they were made from.
        target: the output.
        command_of: see `CommandOf`; for messages.

    Raises:
        UserError: parts are missing, damaged, or not of the same job and input; nothing has been written.
        MachineError: the output cannot be written.
    """
    check_sharded(source, target)
    parts = [part_of(target, Shard(number, count)) for count in _shard_counts(target) for number in range(count)]
    report = _merged_before(source, target, parts)
    if report is None:
        if division_of(target) is None:
            raise UserError(
                f"{target}: there are no parts of it",
                f"make them first, e.g. that of the first of a hundred shards with: {command_of('0/100')}",
            )
        report = _join(target, parts, _records(source, target, parts, command_of), command_of)
    with os_errors_as_machine_errors(f"cannot remove the parts of {target}"):
        for part in parts:
            part.remove()
        for path in index_paths(target):
            path.unlink(missing_ok=True)
    return report


def _merged_before(source: str, target: str, parts: Sequence[PartialFile]) -> Report | None:
    """Returns the counts of an output that is already merged, of this input and the job of any remaining parts."""
    merged = merged_output(target)
    record = merged.finished()
    if record is None or not merged.is_intact(record) or record.notes["source"] != source_index(source, target).sha256:
        return None
    left = (part.finished() for part in parts)
    is_same = all(one is None or one.fingerprint == record.fingerprint for one in left)
    return Report.of_finished(record.notes) if is_same else None


def _records(source: str, target: str, parts: Sequence[PartialFile], command_of: CommandOf) -> list[OutputRecord]:
    """Returns the records of all parts; raises UserError if one is missing or belongs to another job."""
    sha256 = source_index(source, target).sha256
    records = [part.finished() for part in parts]
    jobs = Counter(record.fingerprint for record in records if record and record.notes["source"] == sha256)
    usual = max(jobs, key=lambda job: jobs[job], default="")
    wrong: dict[str, list[int]] = {}
    for number, record in enumerate(records):
        if record is None:
            wrong.setdefault("missing", []).append(number)
        elif record.notes["source"] != sha256:
            wrong.setdefault(f"of another input than {source}", []).append(number)
        elif record.fingerprint != usual:
            wrong.setdefault("of another model or other settings than most", []).append(number)
    if wrong:
        numbers = sorted(itertools.chain(*wrong.values()))
        listed = "; ".join(f"{what}: {_describe_numbers(target, n, len(parts))}" for what, n in wrong.items())
        raise UserError(
            f"{target}: not all of its {len(parts)} parts can be merged, {listed}",
            f"make {'it' if len(numbers) == 1 else 'each of them, the first'} with: "
            f"{command_of(f'{numbers[0]}/{len(parts)}')}",
        )
    return [record for record in records if record is not None]


def _describe_numbers(target: str, numbers: Sequence[int], count: int) -> str:
    """Returns the names of the first parts, and the numbers of all in the syntax of job arrays: 3,17,20-45."""
    names = [part_of(target, Shard(number, count)).path.name for number in numbers[:_SHOWN]]
    if len(numbers) == 1:
        return names[0]
    runs: list[list[int]] = []
    for number in numbers:
        if runs and runs[-1][-1] == number - 1:
            runs[-1] = [runs[-1][0], number]
        else:
            runs.append([number])
    ranges = ",".join("-".join(map(str, run)) for run in runs)
    return f"{', '.join(names)}{', ...' if len(numbers) > _SHOWN else ''} (shards {ranges})"


def _join(target: str, parts: Sequence[PartialFile], records: Sequence[OutputRecord], command_of: CommandOf) -> Report:
    """Writes the output and its record; if a part is damaged, raises UserError and writes nothing."""
    first = Report.of_finished(records[0].notes)
    report = Report(first.verb, first.source, lines=sum(record.lines for record in records))
    with merged_output(target) as output:
        try:
            for number, (part, record) in enumerate(zip(parts, records, strict=True)):
                if _copy(part.path, output) != record.sha256:
                    raise UserError(
                        f"{part.path} is damaged: it is not what its record says",
                        f"make it again: {command_of(f'{number}/{len(parts)}')}",
                    )
                report.add(Report.of_finished(record.notes))
        except BaseException:
            output.discard()
            raise
        output.notes = report.notes()
        output.finish(records[0].fingerprint)
    return Report.of_finished(output.notes)


def _copy(path: Path, output: PartialFile) -> str:
    """Adds a part to the output; returns its sha256."""
    digest = hashlib.sha256()
    with os_errors_as_machine_errors(f"cannot read {path}"), path.open("rb") as file:
        while chunk := file.read(_CHUNK):
            digest.update(chunk)
            output.write(chunk, chunk.count(b"\n"), {})
    return digest.hexdigest()
