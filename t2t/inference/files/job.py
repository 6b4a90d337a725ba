"""Decodes a file: translates, or continues, each line."""

import dataclasses
import functools
from collections.abc import Mapping
from typing import Any

from t2t.hparams.groups import DecodeHParams
from t2t.inference.files.formats import FILES, PHARAOH, TEXT
from t2t.inference.files.output_files import job_renderer
from t2t.inference.files.prefix_lines import PrefixLines, prefix_lines
from t2t.inference.files.report import Report
from t2t.inference.files.windows import FileJob, answer_lines, check_job
from t2t.inference.translator import Hypothesis, Translator

NOTHING = Hypothesis(text="", ids=(), score=0.0, log_prob=0.0)
"""The output for a blank line, without alignments: empty for certain."""


def blank_output(hparams: DecodeHParams) -> Hypothesis:
    """Returns the output for a blank line, with its alignment and tokens where those are asked for."""
    alignment, tokens = () if hparams.alignments else None, () if hparams.token_scores else None
    return dataclasses.replace(NOTHING, alignment=alignment, tokens=tokens)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Job(FileJob):
    """What to decode, and how."""

    output_format: str = TEXT
    """See `t2t.inference.files.formats`."""
    n_best: int = 1
    """Hypotheses written for each line."""
    changes: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    """See `Translator.translate`; inputs are cut at the translator's own `max_input_length`."""
    prefixes: str = ""
    """A file with the beginning of the output of each line; empty for none."""


def decode_file(translator: Translator, job: Job) -> Report:
    """Decodes a file, or a shard of it; resumes an interrupted attempt at the same job.

    An empty or blank line gets an empty output; a language model continues it.

    Raises:
        UserError: a file that is not there, or settings that make no sense; nothing has been written.
        MachineError: the output cannot be written; what was written before can be resumed.
    """
    translator.settings(job.n_best, **job.changes)
    job_renderer(job.output_format, translator.problem, job.target)
    check_job(job)
    prefixes = None
    if job.prefixes:
        translator.encode_prefixes([])  # says at once where outputs cannot begin with what is given
        prefixes = prefix_lines(job.prefixes, job)
    answer = functools.partial(_answer, translator, job, prefixes)
    made_by = functools.partial(_identity, translator, job, prefixes)
    return answer_lines(job, answer, made_by, Report())


def _answer(
    translator: Translator, job: Job, prefixes: PrefixLines | None, texts: list[str], report: Report, progress
) -> list[str]:
    render, written = job_renderer(job.output_format, translator.problem, job.target), []
    given = None if prefixes is None else prefixes.of_lines(report.lines, len(texts))
    found = _translate(translator, job, texts, given, report, progress)
    for number, hypotheses in enumerate(found, start=report.lines + 1):
        line, replaced = render(number, hypotheses, job.n_best)
        written.append(line)
        report.replaced += replaced
        report.tokens += sum(len(hypothesis.ids) for hypothesis in hypotheses)
        report.mended_outputs += any(hypothesis.mended for hypothesis in hypotheses[: job.n_best])
    return written


def _translate(
    translator: Translator, job: Job, texts: list[str], given: list[str] | None, report: Report, progress
) -> list[list[Hypothesis]]:
    """Returns the hypotheses of each line of a window, which begin as is `given`."""
    asked = [row for row, text in enumerate(texts) if not translator.is_blank(text)]
    longest = translator.longest_input
    sentences = []
    for row, ids in zip(asked, translator.encode([texts[row] for row in asked]), strict=True):
        if len(ids) > longest:
            report.cut.note(report.lines + row + 1)
        sentences.append(ids[:longest])
    progress.add(len(texts) - len(asked))
    places = [report.lines + row for row in asked]
    outputs = translator.translate_ids(
        sentences,
        job.n_best,
        places=places,
        sources=[texts[row] for row in asked],
        prefixes=None if given is None else translator.encode_prefixes([given[row] for row in asked]),
        scored=job.output_format not in (TEXT, FILES, PHARAOH),
        on_done=progress.add,
        **job.changes,
    )
    _, hparams = translator.settings(job.n_best, **job.changes)
    found = [[blank_output(hparams)]] * len(texts)
    for row, hypotheses in zip(asked, outputs, strict=True):
        found[row] = hypotheses
    return found


def _identity(translator: Translator, job: Job, prefixes: PrefixLines | None) -> list[Any]:
    settings, hparams = translator.settings(job.n_best, **job.changes)
    return [
        "decoding", translator.fingerprint(), job.output_format, job.n_best, dataclasses.asdict(settings),
        dataclasses.asdict(hparams), *([] if prefixes is None else [prefixes.sha256]),
    ]  # fmt: skip
