"""Scores a file: the probability of each line's target given its source.

    A dog runs. TAB Ein Hund rennt.        gives        -4.213077

A line of a language model is the target alone.
"""

import dataclasses
import functools
import math
from collections import Counter
from collections.abc import Sequence
from typing import Any

from t2t.files.lines import split_columns
from t2t.files.source import LineSource
from t2t.hparams.groups import DecodeHParams
from t2t.inference.files.report import Report
from t2t.inference.files.windows import FileJob, answer_lines, check_job
from t2t.inference.translator import Translator

COLUMNS = ("source", "target")


def score_file(translator: Translator, job: FileJob) -> Report:
    """Writes ln p(target | source), end of sequence included, for each line of a file, six digits after the point.

    An interrupted job is resumed. Sources that are too long are cut and counted. A target that is too long gets `nan`
    and is counted.

    Raises:
        UserError: a file that is not there, or a line without its two columns. Files are looked through before anything
            is written; of a stream, the lines of the windows before have been written by then.
        MachineError: the output cannot be written; what was written before can be resumed.
    """
    check_job(job)
    source = LineSource(job.source)
    if translator.has_inputs and not source.is_stream:
        for number, line in enumerate(source.lines(Counter()), start=1):
            split_columns(line, COLUMNS, str(source), number)
    answer = functools.partial(_answer, translator, str(source))
    return answer_lines(job, answer, functools.partial(_identity, translator), Report(verb="scored"))


def _answer(translator: Translator, name: str, texts: list[str], report: Report, progress) -> list[str]:
    numbers = range(report.lines + 1, report.lines + len(texts) + 1)
    longest = translator.longest_input
    sources: Sequence[Sequence[int]] = [()] * len(texts)
    lines = texts
    if translator.has_inputs:
        pairs = [split_columns(line, COLUMNS, name, number) for number, line in zip(numbers, texts, strict=True)]
        sources, lines = translator.encode([source for source, _ in pairs]), [target for _, target in pairs]
    targets = translator.encode_targets(lines)
    for number, source, target in zip(numbers, sources, targets, strict=True):
        if len(target) > longest:
            report.unscored.note(number)
        if len(source) > longest:
            report.cut.note(number)
    rows = [row for row, target in enumerate(targets) if len(target) <= longest]
    progress.add(len(texts) - len(rows))
    scores = translator.score_ids(
        [sources[row][:longest] for row in rows], [targets[row] for row in rows], on_done=progress.add
    )
    report.tokens += sum(len(targets[row]) + 1 for row in rows)
    found = dict(zip(rows, scores, strict=True))
    return [f"{found.get(row, math.nan):.6f}" for row in range(len(texts))]


def _identity(translator: Translator) -> list[Any]:
    decoding = {field.name: getattr(translator.hparams, field.name) for field in dataclasses.fields(DecodeHParams)}
    return ["scoring", translator.fingerprint(), decoding]
