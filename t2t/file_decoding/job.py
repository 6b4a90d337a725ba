"""One file decoded: read, translated a window at a time, written.

The output is a function of the input, the model and the settings: an attempt that goes on from an interrupted one
begins at the end of a window, so that it meets the batches of an undisturbed one.
"""

import dataclasses
import hashlib
import itertools
import json
import logging
import os
import time
from collections.abc import Iterator, Mapping
from typing import Any

from t2t.errors import UserError
from t2t.file_decoding.formats import renderer
from t2t.file_decoding.output import PartialFile, StreamOutput, open_output
from t2t.file_decoding.progress import default_progress
from t2t.file_decoding.report import Report
from t2t.file_decoding.source import WINDOW, LineSource
from t2t.inference import Hypothesis, Translator

log = logging.getLogger("t2t")

NOTHING = Hypothesis(text="", ids=(), score=0.0, log_prob=0.0)
"""The output for an empty line: empty for certain."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class Job:
    """What to decode, and how."""

    source: str
    """A file of text, plain or gzip, or `-` for standard input."""
    target: str
    """A file, or `-` for standard output."""
    output_format: str = "text"
    """See `t2t.file_decoding.formats`."""
    n_best: int = 1
    """Hypotheses written for each line."""
    window: int = WINDOW
    """Lines that are sorted by length and written together."""
    changes: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    """See `Translator.translate`."""


def decode_file(translator: Translator, job: Job) -> Report:
    """Decodes a file; goes on where an interrupted attempt at the same job has left off.

    A line that is empty or white space gets an empty output without the model being asked; only a language model,
    which can begin with nothing, is.

    Raises:
        UserError: a file that is not there, or settings that make no sense; nothing has been written.
        MachineError: the output cannot be written; what was written before can be resumed.
    """
    _check(translator, job)
    source = LineSource(job.source)
    report = Report()
    sha256, total = (None, None) if source.is_stream else source.scan()
    fingerprint = None if sha256 is None else _fingerprint(translator, job, sha256)
    with open_output(job.target, fingerprint) as output:
        lines = source.lines(report.mended)
        if output.lines:
            log.info("going on after line %s of an interrupted attempt", f"{output.lines:,}")
            report.take_over(output.notes)
            report.lines = sum(1 for _ in itertools.islice(lines, output.lines))
        progress = default_progress(total, report.lines)
        try:
            _decode(translator, job, lines, output, report, progress)
        finally:
            progress.close()
        output.finish()
    return report


def _decode(
    translator: Translator, job: Job, lines: Iterator[str], output: PartialFile | StreamOutput, report: Report, progress
) -> None:
    render = renderer(job.output_format)
    began = time.monotonic()
    while texts := list(itertools.islice(lines, job.window)):
        found = _translate(translator, job, texts, report, progress)
        written = []
        for number, hypotheses in enumerate(found, start=report.lines + 1):
            line, replaced = render(number, hypotheses, job.n_best)
            written.append(line + "\n")
            report.replaced += replaced
            report.tokens += sum(len(hypothesis.ids) for hypothesis in hypotheses)
            report.mended_outputs += any(hypothesis.mended for hypothesis in hypotheses[: job.n_best])
        report.lines += len(texts)
        report.decoded += len(texts)
        report.seconds = time.monotonic() - began
        output.write("".join(written).encode(), len(texts), report.notes())


def _translate(translator: Translator, job: Job, texts: list[str], report: Report, progress) -> list[list[Hypothesis]]:
    """Returns the hypotheses of each line of a window."""
    asked = [row for row, text in enumerate(texts) if text.strip() or not translator.has_inputs]
    longest = translator.longest_input
    sentences = []
    for row, ids in zip(asked, translator.encode([texts[row] for row in asked]), strict=True):
        if len(ids) > longest:
            report.note_cut(report.lines + row + 1)
        sentences.append(ids[:longest])
    progress.add(len(texts) - len(asked))
    places = [report.lines + row for row in asked]
    outputs = translator.translate_ids(
        sentences, job.n_best, places=places, sources=[texts[row] for row in asked], on_done=progress.add, **job.changes
    )
    found = [[NOTHING]] * len(texts)
    for row, hypotheses in zip(asked, outputs, strict=True):
        found[row] = hypotheses
    return found


def _check(translator: Translator, job: Job) -> None:
    translator.settings(job.n_best, **job.changes)
    renderer(job.output_format)
    if not job.target:
        raise UserError(f"decoding {job.source}: no file to write to was named")
    if os.path.isfile(job.target) and os.path.exists(job.source) and os.path.samefile(job.source, job.target):
        raise UserError(f"cannot write {job.target}: it is the file that is read; write elsewhere")
    if job.window < 1:
        raise UserError(f"a window of {job.window} lines: give a number of at least 1")


def _fingerprint(translator: Translator, job: Job, source: str) -> str:
    """Returns a sha256 of everything that decides the output."""
    settings, hparams = translator.settings(job.n_best, **job.changes)
    said = [
        source, translator.fingerprint(), job.output_format, job.n_best, job.window, dataclasses.asdict(settings),
        dataclasses.asdict(hparams),
    ]  # fmt: skip
    return hashlib.sha256(json.dumps(said, sort_keys=True).encode()).hexdigest()
