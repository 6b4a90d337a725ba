"""Processes a file a window of lines at a time: reads, answers and writes it. Decoding and scoring share this.

A resumed attempt starts at the end of a window, so that its batches and its output are those of an uninterrupted one.
So does a shard, whose output is a part of the whole one: see `t2t.inference.files.shards`.
"""

import contextlib
import dataclasses
import functools
import hashlib
import itertools
import json
import logging
import os
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from t2t.errors import UserError
from t2t.files.lines import WINDOW, LineSource
from t2t.files.output import IsValid, PartialFile, StreamOutput, check_output, open_output
from t2t.files.progress import Progress
from t2t.inference.files.report import Report
from t2t.inference.files.shards import Shard, check_sharded, merged_output, part_of, source_index

log = logging.getLogger("t2t")

Answer = Callable[[list[str], Report, Progress], list[str]]
"""`answer(lines, report, progress)` returns a line of output, without its line end, for each line of a window.

report: counts lines that are cut and the like; its `lines` are those before the window.
progress: is advanced by the finished lines.
"""

Marks = Callable[[Iterable[str]], int]
"""`marks(lines)` returns a number that changes with the files that lines name, see `t2t.inference.files.decoding`."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class FileJob:
    """What to read and where to write."""

    source: str
    """A file of text, plain or gzip, or `-` for standard input."""
    target: str
    """A file, or `-` for standard output."""
    window: int = WINDOW
    """Lines that are sorted by length and written together."""
    shard: Shard | None = None
    """Which shard to answer, into its part of the target; None for the whole file."""


def check_job(job: FileJob) -> None:
    """Raises UserError for an invalid job, or one that would overwrite its own input."""
    if not job.target:
        raise UserError(f"reading {job.source}: no file to write to was named", "name one")
    if os.path.isfile(job.target) and os.path.exists(job.source) and os.path.samefile(job.source, job.target):
        raise UserError(f"cannot write {job.target}: it is the file that is read", "write elsewhere")
    if job.window < 1:
        raise UserError("it is a number of lines", "give at least 1", option="decode_window", value=job.window)
    if job.shard:
        check_sharded(job.source, job.target)


Read = Callable[[Counter[str]], Iterator[str]]
"""`read(tally)` yields lines, see `t2t.files.lines.read_lines`."""


def lines_of(job: FileJob) -> tuple[int, Read]:
    """Returns the number of lines before those of a job, and what reads its lines."""
    if not job.shard:
        return 0, LineSource(job.source).lines
    index = source_index(job.source, job.target)
    lines = job.shard.lines(index.lines, job.window)
    return lines.start, functools.partial(index.read, job.source, lines)


def answer_lines(
    job: FileJob,
    answer: Answer,
    made_by: Callable[[], Any],
    report: Report,
    marks: Marks = lambda lines: 0,  # of lines that are texts
    check_end: Callable[[int], None] = lambda count: None,
) -> Report:
    """Answers each line of a file, or of a shard of it; resumes an interrupted attempt at the same job.

    Args:
        job: checked.
        answer: see `Answer`.
        made_by: returns, as plain JSON, everything that determines the output besides the input.
        report: empty; is filled, its `files` by `answer`.
        marks: see `Marks`; what was written before is kept only if the files that its lines name have not changed.
        check_end: called with the number of all lines before the output is complete; not for shards.

    Raises:
        UserError: a file does not exist; nothing has been written.
        MachineError: the output cannot be written; what was written before can be resumed.
    """
    report.lines, read = lines_of(job)
    index = source_index(job.source, job.target) if job.shard else None
    source, total = LineSource(job.source), None
    if index and job.shard:
        report.source, total = index.sha256, len(job.shard.lines(index.lines, job.window))
    elif not source.is_stream:
        report.source, total = source.scan()
    fingerprint = None
    if report.source:  # all shards of a file have the same
        content = json.dumps([report.source, job.window, made_by()], sort_keys=True)
        fingerprint = hashlib.sha256(content.encode()).hexdigest()
    output: PartialFile | StreamOutput
    if index and job.shard:
        output = part_of(job.target, job.shard, fingerprint, _unchanged(read, marks))
        read_all = functools.partial(index.read, job.source, range(index.lines))
        merged = merged_output(job.target, fingerprint, _unchanged(read_all, marks))
        for made in (output, merged):
            if record := made.made_before():
                log.info("%s is there already", made.path)
                return Report.of_finished(record.notes)
        if not total:
            windows, size = (f"{number:,}" for number in (-(-index.lines // job.window), job.window))
            log.info("shard %s is empty: %s has %s windows of %s lines", job.shard, job.source, windows, size)
        check_output(str(output.path))
        merged.forget()  # it is of an earlier job
    else:
        output = open_output(job.target, fingerprint, _unchanged(read, marks))
    with output:
        _write_answers(job, read(report.repaired), total, output, answer, report)
        if not job.shard:
            check_end(report.lines)
        output.finish()
    return report


def _write_answers(
    job: FileJob,
    lines: Iterator[str],
    total: int | None,
    output: PartialFile | StreamOutput,
    answer: Answer,
    report: Report,
) -> None:
    """Answers lines, except those that an earlier attempt has already written to `output`.

    Args:
        job: see `answer_lines`.
        lines: from the first of the file or of the shard.
        total: how many; None where that is not known.
        output: for the answers.
        answer: see `Answer`.
        report: its `lines` are those before the first.
    """
    first = report.lines
    if output.lines:
        log.info("resuming after line %s of an interrupted attempt", f"{first + output.lines:,}")
        report.take_over(output.notes)
        report.lines += sum(1 for _ in itertools.islice(lines, output.lines))
    began = time.monotonic()
    with contextlib.closing(Progress(report.verb, "sentences", total, report.lines - first)) as progress:
        while texts := list(itertools.islice(lines, job.window)):
            answers = answer(texts, report, progress)
            report.lines += len(texts)
            report.done += len(texts)
            report.seconds = time.monotonic() - began
            output.write("".join(line + "\n" for line in answers).encode(), len(texts), report.notes())
    output.notes = report.notes()  # also of a shard without lines


def _unchanged(read: Read, marks: Marks) -> IsValid:
    """Returns what tells whether the files of the lines of an earlier attempt are the same; `read` yields all lines."""
    return lambda count, notes: notes.get("files", 0) == marks(itertools.islice(read(Counter()), count))
