"""Scores or aligns a file of pairs, or judges a file of choices between two outputs.

    A dog runs. TAB Ein Hund rennt.        gives        -4.213077, or 0-0 1-1 2-2

A line of pairs has a source and a target: what is written is the probability of the target given the source, or which
words belong together. A line of a language model is the target alone; it has no alignments.

    The trophy does not fit into the case because it is too big. TAB ... il est trop gros. TAB ... elle ... TAB A

A line of choices has source, output A, output B, and A or B for the right one: does the model find it more probable? A
test of pronouns (Levesque, Davis and Morgenstern, "The Winograd Schema Challenge", 2012): the outputs differ in what
agrees with one noun or the other. ln p(output | source) is compared, end of sequence included, with no length penalty;
a language model ignores the source.
"""

import dataclasses
import functools
import itertools
import json
import math
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from t2t.errors import UserError
from t2t.files.lines import WINDOW, LineSource, split_columns
from t2t.files.pharaoh import format_links
from t2t.hparams.groups import DecodeHParams
from t2t.inference.files.report import Report
from t2t.inference.files.windows import FileJob, answer_lines, check_job, lines_of
from t2t.inference.hypothesis import Tokens
from t2t.inference.translator import Translator

PAIR_COLUMNS = ("source", "target")

_Ids = Sequence[Sequence[int]]
_Pairs = Sequence[tuple[str, str]]
_AnswerPairs = Callable[[_Ids, _Ids, _Pairs, Callable[[int], Any]], list[str]]
"""(sources, targets, both as text, progress) -> a line of output for each pair."""


def score_file(translator: Translator, job: FileJob) -> Report:
    """Writes ln p(target | source), end of sequence included, for each line of a file or shard, with six decimals.

    With the hparam `token_scores` a line is JSON, with the probability of each token as well.
    An interrupted job is resumed. Sources that are too long are cut and counted. A target that is too long gets `nan`
    and is counted.

    Raises:
        UserError: a file does not exist, a line does not have its two columns, or a target is no output for its source,
            see `Problem.read_target`. Files are checked before anything is written; for a stream, the earlier windows
            have been written by then.
        MachineError: the output cannot be written; what was written before can be resumed.
    """

    def score(sources: _Ids, targets: _Ids, texts: _Pairs, on_done: Callable[[int], Any]) -> list[str]:
        return [f"{found:.6f}" for found in translator.score_ids(sources, targets, on_done=on_done)]

    def score_tokens(sources: _Ids, targets: _Ids, texts: _Pairs, on_done: Callable[[int], Any]) -> list[str]:
        return [_token_line(tokens) for tokens in translator.score_tokens(sources, targets, on_done=on_done)]

    if translator.hparams.token_scores:
        translator.settings(token_scores=True)
        return _answer_pairs(translator, job, score_tokens, _token_line(None), Report(verb="scored"))
    return _answer_pairs(translator, job, score, f"{math.nan:.6f}", Report(verb="scored"))


def _token_line(tokens: Tokens | None) -> str:
    """Returns a line of JSON; of a target that is too long for None."""
    if tokens is None:
        return json.dumps({"log_prob": None, "tokens": None})
    rounded = [(piece, round(value, 6)) for piece, value in tokens]
    found = {"log_prob": round(math.fsum(value for _, value in tokens), 6), "tokens": rounded}
    return json.dumps(found, ensure_ascii=False)


def align_file(translator: Translator, job: FileJob) -> Report:
    """Writes the word alignment of each line of a file in the Pharaoh format, see `t2t.files.pharaoh`.

    As `score_file`, but a target that is too long gets an empty line.

    Raises:
        UserError: see `score_file`; or a model without attention to its inputs.
        MachineError: see `score_file`.
    """
    translator.settings(alignments=True)

    def align(sources: _Ids, targets: _Ids, texts: _Pairs, on_done: Callable[[int], Any]) -> list[str]:
        found = translator.align_ids(sources, targets, texts=texts, on_done=on_done)
        return [format_links(links) for links in found]

    return _answer_pairs(translator, job, align, "", Report(verb="aligned"))


def _answer_pairs(translator: Translator, job: FileJob, answer: _AnswerPairs, too_long: str, report: Report) -> Report:
    check_job(job)
    if translator.has_inputs and not LineSource(job.source).is_stream:
        before, read = lines_of(job)
        for number, line in enumerate(read(Counter()), start=before + 1):
            source, target = split_columns(line, PAIR_COLUMNS, job.source, number)
            translator.read_targets([target], [source], functools.partial(_name_of_line, job.source, number))
    answer_window = functools.partial(_answer, translator, str(LineSource(job.source)), answer, too_long)
    return answer_lines(job, answer_window, functools.partial(_identity, translator, report.verb), report)


def _answer(
    translator: Translator, name: str, answer: _AnswerPairs, too_long: str, texts: list[str], report: Report, progress
) -> list[str]:
    numbers = range(report.lines + 1, report.lines + len(texts) + 1)
    longest, longest_target = translator.longest_input, translator.longest_target
    sources: _Ids = [()] * len(texts)
    pairs: _Pairs = [("", line) for line in texts]
    if translator.has_inputs:
        columns = (split_columns(line, PAIR_COLUMNS, name, number) for number, line in zip(numbers, texts, strict=True))
        pairs = [(source, target) for source, target in columns]
        sources = translator.encode([source for source, _ in pairs])
    targets = translator.encode_targets(
        [target for _, target in pairs],
        [source for source, _ in pairs] if translator.has_inputs else None,
        functools.partial(_name_of_line, name, report.lines + 1),
    )
    for number, source, target in zip(numbers, sources, targets, strict=True):
        if len(target) > longest_target:
            report.unscored.note(number)
        if len(source) > longest:
            report.cut.note(number)
    rows = [row for row, target in enumerate(targets) if len(target) <= longest_target]
    progress.add(len(texts) - len(rows))
    read = [sources[row][:longest] for row in rows], [targets[row] for row in rows], [pairs[row] for row in rows]
    answers = answer(*read, progress.add)
    report.tokens += sum(len(targets[row]) + 1 for row in rows)
    found = dict(zip(rows, answers, strict=True))
    return [found.get(row, too_long) for row in range(len(texts))]


def _name_of_line(file: str, first: int, index: int = 0) -> str:
    return f"{file}: line {first + index:,}"


def _identity(translator: Translator, verb: str) -> list[Any]:
    decoding = {field.name: getattr(translator.hparams, field.name) for field in dataclasses.fields(DecodeHParams)}
    return ["scoring" if verb == "scored" else verb, translator.fingerprint(), decoding]


CHOICE_COLUMNS = ("source", "output A", "output B", "A or B")


@dataclasses.dataclass(frozen=True)
class ChoiceLine:
    """One line of the file."""

    number: int
    """Of the line, from 1."""
    source: str
    outputs: tuple[str, str]
    right: int
    """0 for the first, 1 for the second."""


@dataclasses.dataclass
class Choices:
    """How often a model has chosen right."""

    right: int = 0
    of: int = 0
    ties: int = 0
    """Lines whose outputs are equally probable, so that nothing was chosen; they do not count as right."""
    report: Report = dataclasses.field(default_factory=Report)
    """Lines that were cut or repaired while being read."""

    def __str__(self) -> str:
        return f"accuracy {self.right / self.of:.3f} ({self.right:,} of {self.of:,})"


def judge_choices(translator: Translator, file: str, window: int = WINDOW) -> Choices:
    """Counts how often the model gives the right output of two the higher probability.

    Args:
        translator: of the model.
        file: text, plain or gzip, or `-` for standard input; see the head of this file.
        window: lines that are scored together.

    Raises:
        UserError: no such file, no line in it, or a line of other columns, with equal outputs, or with an output that
            is longer than the model takes.
    """
    judged = Choices()
    choices = _read_choices(LineSource(file), judged.report)
    while batch := list(itertools.islice(choices, window)):
        scores = _choice_scores(translator, file, batch, judged.report)
        for choice, found in zip(batch, scores, strict=True):
            judged.of += 1
            judged.ties += found[0] == found[1]
            judged.right += found[choice.right] > found[1 - choice.right]
    if not judged.of:
        raise UserError(f"{file}: it has no lines", f"a line needs {' TAB '.join(CHOICE_COLUMNS)}")
    return judged


def _read_choices(source: LineSource, report: Report) -> Iterator[ChoiceLine]:
    for number, line in enumerate(source.lines(report.repaired), start=1):
        text, first, second, right = split_columns(line, CHOICE_COLUMNS, str(source), number)
        if right.strip() not in ("A", "B"):
            raise UserError(f"{source}: line {number:,} ends in {right.strip()[:40]!r}", "its last column says A or B")
        if first == second:
            raise UserError(f"{source}: line {number:,} has the same output twice", "there is nothing to choose")
        yield ChoiceLine(number, text, (first, second), "AB".index(right.strip()))


def _choice_scores(
    translator: Translator, file: str, choices: Sequence[ChoiceLine], report: Report
) -> Iterator[tuple[float, float]]:
    """Returns the log-probabilities of both outputs of each line."""
    targets = translator.encode_targets(
        [output for choice in choices for output in choice.outputs],
        [choice.source for choice in choices for _ in choice.outputs] if translator.has_inputs else None,
        lambda place: f"{file}: line {choices[place // 2].number:,}: output {'AB'[place % 2]}",
    )
    for place, ids in enumerate(targets):
        if len(ids) > translator.longest_target:
            raise UserError(
                f"{file}: line {choices[place // 2].number:,}: output {'AB'[place % 2]} has {len(ids) + 1:,} ids with "
                f"end of sequence, more than {translator.most_ids}",
                "give a shorter one",
            )
    sources: Sequence[Sequence[int]] = [()] * len(choices)
    if translator.has_inputs:
        sources = translator.encode([choice.source for choice in choices])
    longest = translator.longest_input
    for choice, source in zip(choices, sources, strict=True):
        if len(source) > longest:
            report.cut.note(choice.number)
    twice = [source[:longest] for source in sources for _ in range(2)]
    scores = translator.score_ids(twice, targets)
    for place in range(0, len(targets), 2):
        first, second = scores[place : place + 2]
        yield first, first if targets[place] == targets[place + 1] else second  # equal ids: no rounding may decide
