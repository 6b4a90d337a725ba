"""Decodes a file: translates, or continues, each line; for recordings and images, a line is the path of a file.

Line n of a side file is for the output of line n: what it begins with, or constraints on it.
"""

import contextlib
import dataclasses
import functools
import hashlib
import itertools
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from t2t.errors import UserError
from t2t.files.atomic import os_errors_as_machine_errors
from t2t.files.line_index import LineIndex, index_lines
from t2t.files.lines import NUL_REMOVED, WINDOW, LineSource
from t2t.files.paths import local_path
from t2t.files.remote.mirror import fetch
from t2t.inference.files.formats import FILES, PHARAOH, TEXT, job_renderer
from t2t.inference.files.report import Report
from t2t.inference.files.shards import side_index, source_index
from t2t.inference.files.windows import FileJob, answer_lines, check_job, lines_of
from t2t.inference.hypothesis import Hypothesis, blank_output
from t2t.inference.output_constraints import OutputTerms, terms_of_line
from t2t.inference.rows import Row, cut_row
from t2t.inference.translator import Translator
from t2t.problems.base import read_input


class SideLines:
    """The lines of a side file, read in order, from the first line that is requested.

    Args:
        flag: name of the flag that gives the file, for messages.
        path: line n belongs to line n of the input; empty lines have no effect.
        index: of the file.
        lines: the range of those that the job reads, from 0.
    """

    def __init__(self, flag: str, path: str, index: LineIndex, lines: range):
        self.sha256, self.lines = index.sha256, lines
        self._name, self._path, self._index = f"--{flag}={path}", path, index
        self._following: Iterator[str] = iter(())
        self._damage: Counter[str] = Counter()
        self._read = -1

    def name_of(self, number: int) -> str:
        """Returns the name of a line in messages; the first has number 0."""
        return f"{self._name}, line {number + 1:,}"

    def of_lines(self, start: int, count: int) -> list[str]:
        """Returns `count` lines after the first `start`; raises UserError where there are fewer, or one is damaged."""
        if self._read != start:
            self._damage.clear()
            rest = range(start, max(start, self._index.lines))
            self._following, self._read = self._index.read(self._path, rest, self._damage), start
        return [self._next() for _ in range(count)]

    def check_count(self, source: LineSource, count: int) -> None:
        """Raises UserError unless the file has `count` lines, as many as its input, `source`."""
        if self._index.lines != count:
            raise UserError(
                f"{self._name}: it has {self._index.lines:,} lines and {source} has {count:,}",
                "line n belongs to line n, so give as many, empty where nothing is prescribed",
            )

    def _next(self) -> str:
        line = next(self._following, None)
        if line is None:
            raise UserError(
                f"{self._name}: it ends after line {self._read:,}, before the input", "give one line for each"
            )
        if self._damage:
            damage = "NUL" if NUL_REMOVED in self._damage else "bytes that are not UTF-8"
            raise UserError(f"{self.name_of(self._read)}: it contains {damage}", "correct the file")
        self._read += 1
        return line


def side_lines(flag: str, side: str, path: str, job: FileJob) -> SideLines:
    """Returns the lines of a side file of a job; `side` is one of `t2t.inference.files.shards.SIDES`.

    Raises:
        UserError: the file is a stream, or has another number of lines than the input; for an input that is a stream,
            `check_count` finds that at its end.
    """
    if LineSource(path).is_stream:
        raise UserError("it is a stream, which can be read only once", "give a file", option=flag, value=path)
    decoded = LineSource(job.source)
    index = side_index(side, path, job.target) if job.shard else index_lines(path)
    lines = job.shard.lines(index.lines, job.window) if job.shard else range(index.lines)
    found = SideLines(flag, path, index, lines)
    if job.shard:
        found.check_count(decoded, source_index(job.source, job.target).lines)
    elif not decoded.is_stream:
        found.check_count(decoded, sum(1 for _ in decoded.lines(Counter())))
    return found


LATER = ("max_input_seq_length", "max_target_seq_length")
"""Hparams of training that came later: unfinished outputs of versions without them are resumed."""


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
    constraints: str = ""
    """A file with constraints on the words of each line's output, in JSON; empty for none."""


class _Sides(NamedTuple):
    """The side files of the input."""

    prefixes: SideLines | None
    constraints: SideLines | None

    @property
    def sha256(self) -> list[str]:
        """Name and sha256 of each side file that is given."""
        return [f"{name} {lines.sha256}" for name, lines in self._asdict().items() if lines is not None]

    def terms(self, start: int, count: int) -> list[OutputTerms | None] | None:
        """Returns the constraints on `count` outputs after the first `start`; None without a file of constraints."""
        if self.constraints is None:
            return None
        lines = enumerate(self.constraints.of_lines(start, count), start=start)
        return [terms_of_line(line, self.constraints.name_of(number)) for number, line in lines]

    def check_counts(self, source: LineSource, count: int) -> None:
        """Raises UserError unless each side file has `count` lines, as many as the input, `source`."""
        for side in self:
            if side is not None:
                side.check_count(source, count)

    def check(self, translator: Translator, job: Job) -> None:
        """Raises UserError for the first line that the job reads and cannot satisfy; it names the line.

        What the problem demands of the output for a line of a stream is found only when that line is decoded.
        """

        @functools.lru_cache(maxsize=WINDOW)  # the same constraint, which takes long to compile, is often on many lines
        def check_line(terms: OutputTerms | None, prefix: tuple[int, ...], source: str | None) -> None:
            translator.check_terms(terms, job.n_best, prefix=prefix, source=source, **job.changes)

        given = [side for side in self if side is not None]
        if not given:
            return
        is_constrained = translator.constrains_outputs(job.n_best, **job.changes)
        # The lines of a stream can be read only once.
        lines = itertools.repeat(None) if LineSource(job.source).is_stream else lines_of(job)[1](Counter())
        for number, line in zip(given[0].lines, lines, strict=False):
            (terms,), begins = self.terms(number, 1) or [None], self.prefixes and self.prefixes.of_lines(number, 1)
            if line is not None and translator.is_blank(line):
                continue
            with _errors_named(*[self.prefixes.name_of(number)] if self.prefixes else []):
                prefix = tuple(translator.encode_prefixes(begins)[0]) if begins else ()
            source = line if translator.reads_text or line is None else ""
            # Each side is checked alone first, so that an error names the one at fault.
            for one, ids in dict.fromkeys([(None, ()), (terms, ()), (None, prefix), (terms, prefix)]):
                sides = [side for side, asked in ((self.constraints, one), (self.prefixes, ids)) if side and asked]
                with _errors_named(*[side.name_of(number) for side in sides] or [f"{job.source}, line {number + 1:,}"]):
                    check_line(one, ids, source if is_constrained else None)


@contextlib.contextmanager
def _errors_named(*names: str) -> Iterator[None]:
    """Puts names in front of the message of a UserError."""
    try:
        yield
    except UserError as error:
        raise error.at(", ".join(names)) from None


def decode_file(translator: Translator, job: Job) -> Report:
    """Decodes a file, or a shard of it; resumes an interrupted attempt at the same job.

    An empty or blank line gets an empty output; a language model continues it. Recordings and images are given by their
    paths, relative to the folder of the file, or by addresses of an object store.

    Where the input is a stream, a side file with more or fewer lines is found when one of them ends; the outputs of
    earlier windows are written by then.

    Raises:
        UserError: a file does not exist, or settings are invalid; nothing has been written. A recording or image that
            is missing or damaged is found when it is read; what was written before can be resumed.
        MachineError: the output cannot be written; what was written before can be resumed.
    """
    translator.settings(job.n_best, **job.changes)
    job_renderer(job.output_format, translator.problem, job.target)
    check_job(job)
    prefixes = constraints = None
    if job.prefixes:
        translator.encode_prefixes([])  # raises at once if the model supports no prefixes
        prefixes = side_lines("target_prefix_file", "prefixes", job.prefixes, job)
    if job.constraints:
        constraints = side_lines("constraints_file", "constraints", job.constraints, job)
    sides = _Sides(prefixes, constraints)
    sides.check(translator, job)
    answer = functools.partial(_answer, translator, job, sides)
    made_by = functools.partial(_identity, translator, job, sides)
    check_end = functools.partial(sides.check_counts, LineSource(job.source))
    return answer_lines(job, answer, made_by, Report(), functools.partial(_marks, translator, job), check_end)


def _answer(translator: Translator, job: Job, sides: _Sides, texts: list[str], report: Report, progress) -> list[str]:
    render, written = job_renderer(job.output_format, translator.problem, job.target), []
    found = _translate(translator, job, texts, sides, report, progress)
    for number, hypotheses in enumerate(found, start=report.lines + 1):
        line, replaced = render(number, hypotheses, job.n_best)
        written.append(line)
        report.replaced += replaced
        report.tokens += sum(len(hypothesis.ids) for hypothesis in hypotheses)
        if any(hypothesis.cut for hypothesis in hypotheses[: job.n_best]):
            report.cut_outputs.note(number)
        report.repaired_outputs += any(hypothesis.repaired for hypothesis in hypotheses[: job.n_best])
    return written


def _translate(
    translator: Translator, job: Job, texts: list[str], sides: _Sides, report: Report, progress
) -> list[list[Hypothesis]]:
    """Returns the hypotheses of each line of a window, with the prefixes and constraints of the side files."""
    given = None if sides.prefixes is None else sides.prefixes.of_lines(report.lines, len(texts))
    terms = sides.terms(report.lines, len(texts))
    asked = [row for row, text in enumerate(texts) if not translator.is_blank(text)]
    lines = [texts[row] for row in asked]
    sentences: Sequence[Row]
    if translator.reads_text:
        sentences, longest = translator.encode(lines), translator.longest_input
        for row, ids in zip(asked, sentences, strict=True):
            if len(ids) > longest:
                report.cut.note(report.lines + row + 1)
        sentences = [cut_row(ids, longest, translator.has_inputs) for ids in sentences]
    else:
        paths = listed_files(lines, Path(job.source).parent)
        report.files += marks_of(lines, paths)  # before they are read, as they may change while they are
        sentences = [read_input(translator.problem, path) for path in paths]
    progress.add(len(texts) - len(asked))
    seeds = [report.lines + row for row in asked]
    outputs = translator.translate_ids(
        sentences,
        job.n_best,
        seeds=seeds,
        sources=lines if translator.reads_text else None,
        prefixes=None if given is None else translator.encode_prefixes([given[row] for row in asked]),
        **({} if terms is None else {"constraints": [terms[row] for row in asked]}),
        scored=job.output_format not in (TEXT, FILES, PHARAOH),
        on_done=progress.add,
        **job.changes,
    )
    _, hparams = translator.settings(job.n_best, **job.changes)
    found = [[blank_output(hparams)]] * len(texts)
    for row, hypotheses in zip(asked, outputs, strict=True):
        found[row] = hypotheses
    return found


def _marks(translator: Translator, job: Job, lines: Iterable[str]) -> int:
    if translator.reads_text:
        return 0
    named = [line for line in lines if not translator.is_blank(line)]
    return marks_of(named, listed_files(named, Path(job.source).parent))


def _identity(translator: Translator, job: Job, sides: _Sides) -> list[Any]:
    settings, hparams = translator.settings(job.n_best, **job.changes)
    return [
        "decoding", translator.fingerprint(), job.output_format, job.n_best, dataclasses.asdict(settings),
        {name: value for name, value in dataclasses.asdict(hparams).items() if name not in LATER}, *sides.sha256,
    ]  # fmt: skip


def listed_files(lines: Sequence[str], folder: Path) -> list[Path]:
    """Returns the paths that lines give, and fetches those of object stores; files may be missing.

    Args:
        lines: paths relative to the folder, or addresses of object stores.
        folder: of the file with the lines.

    Raises:
        UserError: an address is malformed, or its scheme unknown.
        MachineError: the store refuses or does not respond.
    """
    paths = [folder / (local_path(line) if "://" in line else line) for line in lines]
    with os_errors_as_machine_errors("cannot read the files that lines name"):
        fetch(*paths)
    return paths


def marks_of(lines: Sequence[str], paths: Sequence[Path]) -> int:
    """Returns a number that changes with the size or time of each file; the sum over parts is that of the whole.

    With it, outputs of files that have changed since are not kept, and those of others are, e.g. when decoding has
    stopped at a missing file that is then added.

    Args:
        lines: see `listed_files`.
        paths: their files; one may be missing.
    """
    return sum(map(_marks_of_one, lines, paths))


def _marks_of_one(line: str, path: Path) -> int:
    try:
        status = path.stat()
        marks = f"{status.st_size} {status.st_mtime_ns}"
    except OSError:
        marks = "missing"
    return int.from_bytes(hashlib.sha256(f"{marks} {line}".encode()).digest()[:8])
