"""What decoding and scoring a file share: it is read, answered and written a window of lines at a time.

A resumed attempt begins at the end of a window, so that its batches, and the output, are those of an undisturbed one.
"""

import contextlib
import dataclasses
import hashlib
import itertools
import json
import logging
import os
import time
from collections.abc import Callable
from typing import Any

from t2t.errors import UserError
from t2t.files.output import open_output
from t2t.files.progress import Progress
from t2t.files.source import WINDOW, LineSource
from t2t.inference.files.report import Report

log = logging.getLogger("t2t")

Answer = Callable[[list[str], Report, Progress], list[str]]
"""`answer(lines, report, progress)`: a line of output, without its end, for each line of a window.

report: counts what is cut and the like; its `lines` are those before the window.
progress: told of every line that is done.
"""


@dataclasses.dataclass(frozen=True, kw_only=True)
class FileJob:
    """What to read and where to write."""

    source: str
    """A file of text, plain or gzip, or `-` for standard input."""
    target: str
    """A file, or `-` for standard output."""
    window: int = WINDOW
    """Lines that are sorted by length and written together."""


def check_job(job: FileJob) -> None:
    """Raises UserError for a job that makes no sense, or would write over its own input."""
    if not job.target:
        raise UserError(f"reading {job.source}: no file to write to was named")
    if os.path.isfile(job.target) and os.path.exists(job.source) and os.path.samefile(job.source, job.target):
        raise UserError(f"cannot write {job.target}: it is the file that is read; write elsewhere")
    if job.window < 1:
        raise UserError(f"a window of {job.window} lines: give a number of at least 1")


def answer_lines(job: FileJob, answer: Answer, made_by: Callable[[], Any], report: Report) -> Report:
    """Answers each line of a file; resumes an interrupted attempt at the same job.

    Args:
        job: checked.
        answer: see `Answer`.
        made_by: returns, as plain JSON, everything but the input that decides the output.
        report: empty; is filled.

    Raises:
        UserError: a file that is not there; nothing has been written.
        MachineError: the output cannot be written; what was written before can be resumed.
    """
    source = LineSource(job.source)
    sha256, total = (None, None) if source.is_stream else source.scan()
    fingerprint = None
    if sha256 is not None:
        content = json.dumps([sha256, job.window, made_by()], sort_keys=True)
        fingerprint = hashlib.sha256(content.encode()).hexdigest()
    with open_output(job.target, fingerprint) as output:
        lines = source.lines(report.mended)
        if output.lines:
            log.info("going on after line %s of an interrupted attempt", f"{output.lines:,}")
            report.take_over(output.notes)
            report.lines = sum(1 for _ in itertools.islice(lines, output.lines))
        began = time.monotonic()
        with contextlib.closing(Progress(report.verb, "sentences", total, report.lines)) as progress:
            while texts := list(itertools.islice(lines, job.window)):
                answers = answer(texts, report, progress)
                report.lines += len(texts)
                report.done += len(texts)
                report.seconds = time.monotonic() - began
                output.write("".join(line + "\n" for line in answers).encode(), len(texts), report.notes())
        output.finish()
    return report
