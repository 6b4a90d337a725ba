"""Proof that an export answers as its run does: the same inputs to both, output against output."""

import dataclasses
from collections.abc import Sequence
from typing import Any

from t2t.errors import T2TError
from t2t.inference import Hypothesis, Translator

TOLERANCE = 1e-3
"""What scores may differ by: absolute below 1, relative above."""

GREEDY = {"decode_method": "greedy", "alpha": 0.0}
"""The search that every search has in common, scored by log-probability: as changes of the decode hparams."""


class ParityError(T2TError):
    """An export that does not answer as its run does, and is not kept."""


@dataclasses.dataclass(frozen=True)
class Answer:
    """One output of either side."""

    ids: tuple[int, ...]
    """End of sequence included."""
    score: float
    text: str | None = None
    """None where a format has ids alone."""


@dataclasses.dataclass(frozen=True)
class Parity:
    """How the outputs of an export and of its run compare."""

    inputs: int
    identical: int | None
    """Inputs whose outputs are the same to the id and to the letter; None where they are given."""
    largest_difference: float
    """Of the scores of outputs that are the same, as `TOLERANCE` has it."""
    first: str = ""
    """The first difference, for a person."""

    def demand(self, what: str, tolerance: float = TOLERANCE) -> None:
        """Raises ParityError where anything differs.

        Args:
            what: is held against the run, e.g. `greedy search`.
            tolerance: what scores may differ by.
        """
        if self.identical in (None, self.inputs) and self.largest_difference <= tolerance:
            return
        wanted = f"all must be the same and scores within {tolerance:g}"
        raise ParityError(f"{what}: {self}; {wanted}; {self.first + '; ' if self.first else ''}the export is not kept")

    def __str__(self) -> str:
        same = "" if self.identical is None else f"{self.identical:,} of "
        return (
            f"{same}{self.inputs:,} outputs are those of the run, scores differ by up to {self.largest_difference:.1g}"
        )

    def to_dict(self) -> dict[str, Any]:
        """Returns it for a report."""
        return {name: value for name, value in dataclasses.asdict(self).items() if name != "first"}


def answers_of_run(translator: Translator, inputs: Sequence[Any], n_best: int = 1, **changes) -> list[list[Answer]]:
    """Returns what a run says to each input, before the problem finishes it.

    Args:
        translator: of the run.
        inputs: texts, or arrays of what is no text.
        n_best: see `Translator.translate`.
        changes: see `Translator.translate`.
    """
    if inputs and isinstance(inputs[0], str):
        found = translator.translate(inputs, n_best, **changes)
    else:
        found = translator.translate_ids(inputs, n_best, **changes)
    return [[_answer(translator, hypothesis) for hypothesis in hypotheses] for hypotheses in found]


def _answer(translator: Translator, hypothesis: Hypothesis) -> Answer:
    text = hypothesis.text
    if translator.problem.finishes:
        text = translator.problem.decode_target(hypothesis.ids)
    return Answer(hypothesis.ids, hypothesis.score, text)


def compare(expected: Sequence[Sequence[Answer]], found: Sequence[Sequence[Answer]]) -> Parity:
    """Holds the outputs of an export against those of its run, input by input."""
    identical, largest, first = 0, 0.0, ""
    for number, (ours, theirs) in enumerate(zip(expected, found, strict=True), start=1):
        if len(ours) == len(theirs) and all(map(_same, ours, theirs)):
            identical += 1
            largest = max([largest, *(_difference(*pair) for pair in zip(ours, theirs, strict=True))])
        else:
            first = first or f"the first that is not is input {number}: {_shown(theirs)} instead of {_shown(ours)}"
    return Parity(len(expected), identical, largest, first)


def _same(ours: Answer, theirs: Answer) -> bool:
    return ours.ids == theirs.ids and theirs.text in (None, ours.text)


def _difference(ours: Answer, theirs: Answer) -> float:
    return abs(ours.score - theirs.score) / max(1.0, abs(ours.score))


def _shown(answers: Sequence[Answer]) -> str:
    if not answers:
        return "nothing"
    best = answers[0]
    return f"{str(best.ids if best.text is None else best.text)[:80]!r} ({best.score:.4f})"
