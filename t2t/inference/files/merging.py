"""Merges the parts that shards have written into the output that one machine would have written.

The output is written under a temporary name. Before it is renamed and the parts are removed, `.G.merged.json` records
what it contains. So after a kill, the next merge knows whether to join the parts or only to remove the remaining ones.
"""

import hashlib
import itertools
import os
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path

from t2t.errors import UserError
from t2t.files.atomic import os_errors_as_machine_errors
from t2t.files.output import PartialFile
from t2t.inference.files.parts import OutputPart, PartRecord, merged_output, part_of, shard_counts
from t2t.inference.files.report import Report
from t2t.inference.files.shards import Shard, check_sharded, index_paths, source_index

_CHUNK = 1 << 24
_SHOWN = 3

CommandOf = Callable[[str], str]
"""Returns the command that makes the part of a shard, given as e.g. `3/100`."""


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
    counts = sorted(shard_counts(target))
    parts = [part_of(target, Shard(number, count)) for count in counts for number in range(count)]
    record = _merged_before(source, target, parts)
    if record is None:
        if division_of(target) is None:
            raise UserError(
                f"{target}: there are no parts of it; make them first, e.g. that of the first of a hundred shards "
                f"with: {command_of('0/100')}"
            )
        records = _records(source, target, parts, command_of)
        record = _join(merged_output(target), parts, records, command_of)
    with os_errors_as_machine_errors(f"cannot remove the parts of {target}"):
        for part in parts:
            part.remove()
        for path in index_paths(target):
            path.unlink(missing_ok=True)
    return record.report()


def _merged_before(source: str, target: str, parts: Sequence[OutputPart]) -> PartRecord | None:
    """Returns the record of an output that is already merged, of this input and the job of any remaining parts."""
    whole = merged_output(target)
    record = whole.record()
    if record is None or not whole.is_whole(record) or record.source != source_index(source, target).sha256:
        return None
    left = (part.record() for part in parts)
    return record if all(one is None or one.fingerprint == record.fingerprint for one in left) else None


def division_of(target: str) -> int | None:
    """Returns the number of shards that an output is divided into; None if it has no parts.

    Raises:
        UserError: there are parts of several divisions.
    """
    counts = sorted(shard_counts(target))
    if len(counts) > 1:
        raise UserError(
            f"{target}: parts of {' and of '.join(map(str, counts))} shards are next to it; remove those that are not "
            f"wanted, such as {target}.shard-*-of-{counts[0]:05d}*"
        )
    return counts[0] if counts else None


def _records(source: str, target: str, parts: Sequence[OutputPart], command_of: CommandOf) -> list[PartRecord]:
    """Returns the records of all parts; raises UserError if one is missing or belongs to another job."""
    sha256 = source_index(source, target).sha256
    records = [part.record() for part in parts]
    jobs = Counter(record.fingerprint for record in records if record and record.source == sha256)
    usual = max(jobs, key=lambda job: jobs[job], default="")
    wrong: dict[str, list[int]] = {}
    for number, record in enumerate(records):
        if record is None:
            wrong.setdefault("missing", []).append(number)
        elif record.source != sha256:
            wrong.setdefault(f"of another input than {source}", []).append(number)
        elif record.fingerprint != usual:
            wrong.setdefault("of another model or other settings than most", []).append(number)
    if wrong:
        numbers = sorted(itertools.chain(*wrong.values()))
        listed = "; ".join(f"{what}: {_describe_numbers(target, n, len(parts))}" for what, n in wrong.items())
        raise UserError(
            f"{target}: not all of its {len(parts)} parts can be merged, {listed}; make "
            f"{'it' if len(numbers) == 1 else 'each of them, the first'} with: "
            f"{command_of(f'{numbers[0]}/{len(parts)}')}"
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


def _join(
    whole: OutputPart, parts: Sequence[OutputPart], records: Sequence[PartRecord], command_of: CommandOf
) -> PartRecord:
    """Writes the output and its record; if a part is damaged, raises UserError and writes nothing."""
    report = Report(verb=records[0].verb)
    with PartialFile(Path(os.path.realpath(whole.path)), None) as output:
        try:
            for number, (part, record) in enumerate(zip(parts, records, strict=True)):
                if _copy(part.path, output) != record.sha256:
                    raise UserError(
                        f"{part.path} is damaged: it is not what its record says; make it again: "
                        f"{command_of(f'{number}/{len(parts)}')}"
                    )
                report.add(record.report())
        except BaseException:
            output.discard()
            raise
        lines = range(sum(record.lines for record in records))
        merged = whole.write_record(records[0].source, records[0].fingerprint, lines, output, report)
        output.finish()
    return merged


def _copy(path: Path, output: PartialFile) -> str:
    """Adds a part to the output; returns its sha256."""
    digest = hashlib.sha256()
    with os_errors_as_machine_errors(f"cannot read {path}"), path.open("rb") as file:
        while chunk := file.read(_CHUNK):
            digest.update(chunk)
            output.write(chunk, chunk.count(b"\n"), {})
    return digest.hexdigest()
