"""Choosing between two given outputs: does the model find the right one more probable?

    The trophy does not fit into the case because it is too big. TAB ... il est trop gros. TAB ... elle ... TAB A

A test of pronouns (Levesque, Davis and Morgenstern, "The Winograd Schema Challenge", 2012): the outputs differ in what
agrees with one noun or the other. ln p(output | source) is compared, end of sequence included, with no length penalty.
A line has source, output A, output B, and A or B for the right one; a language model ignores the source.
"""

import dataclasses
import itertools
from collections.abc import Iterator, Sequence

from t2t.errors import UserError
from t2t.files.lines import WINDOW, LineSource, split_columns
from t2t.inference.files.report import Report
from t2t.inference.translator import Translator

COLUMNS = ("source", "output A", "output B", "A or B")


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
    choices = _read(LineSource(file), judged.report)
    while batch := list(itertools.islice(choices, window)):
        scores = _scores(translator, file, batch, judged.report)
        for choice, found in zip(batch, scores, strict=True):
            judged.of += 1
            judged.ties += found[0] == found[1]
            judged.right += found[choice.right] > found[1 - choice.right]
    if not judged.of:
        raise UserError(f"{file}: it has no lines; a line needs {' TAB '.join(COLUMNS)}")
    return judged


def _read(source: LineSource, report: Report) -> Iterator[ChoiceLine]:
    for number, line in enumerate(source.lines(report.repaired), start=1):
        text, first, second, right = split_columns(line, COLUMNS, str(source), number)
        if right.strip() not in ("A", "B"):
            raise UserError(f"{source}: line {number:,} ends in {right.strip()[:40]!r}; its last column says A or B")
        if first == second:
            raise UserError(f"{source}: line {number:,} has the same output twice; there is nothing to choose")
        yield ChoiceLine(number, text, (first, second), "AB".index(right.strip()))


def _scores(
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
                f"end of sequence, more than {translator.most_ids}; give a shorter one"
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
