"""Verifies that an export gives the same outputs as its run: what is promised, and comparisons of outputs."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Self

from t2t.errors import T2TError
from t2t.specs import TARGETS

if TYPE_CHECKING:
    from t2t.inference.hypothesis import Hypothesis
    from t2t.inference.translator import Translator

FLOAT32, FLOAT16, INT8 = "float32", "float16", "int8"

TEXTS_OF_IDS = "texts of ids"
"""Name of the comparison of target vocabularies."""


class ParityError(T2TError):
    """The outputs of an export differ from its run's; the export is deleted."""


@dataclasses.dataclass(frozen=True)
class Promise:
    """Required agreement of an export with its run; an export that does not meet it is deleted."""

    identical_share: float
    """Smallest share of inputs with the same output as the run, in (0, 1]."""
    score_difference: float
    """Largest difference of any score: for float32, absolute below 1 and relative above; for other quantizations, the
    difference in log-probability of the run's output, in nats per token."""

    def __str__(self) -> str:
        """Returns the requirement as a clause for help, documentation and messages."""
        if self.identical_share == 1:
            return f"every output is that of the run, id by id; scores are within {self.score_difference:g}"
        return (
            f"at least {self.identical_share:.0%} of the outputs are those of the run, id by id; no line's score is "
            f"off by more than {self.score_difference:g} nats per token"
        )


PROMISES = {FLOAT32: Promise(1.0, 1e-3), FLOAT16: Promise(0.9, 0.05), INT8: Promise(0.5, 0.5)}
"""Quantization -> requirement."""


def finite_or_inf(difference: float) -> float:
    """Replaces NaN by infinity, since NaN passes comparisons with bounds unnoticed and may be lost in `max`."""
    return difference if math.isfinite(difference) else math.inf


def relative_difference(expected: float, found: float) -> float:
    """Returns the difference of two numbers, absolute below 1 and relative above; infinite unless both are finite."""
    return finite_or_inf(abs(expected - found) / max(1.0, abs(expected)))


@dataclasses.dataclass(frozen=True)
class ComparedOutput:
    """One output of a run or an export. Values that a format does not provide are None and are not compared."""

    ids: tuple[int, ...] | None
    """Ids, end of sequence included."""
    score: float
    text: str | None = None
    log_prob: float | None = None
    probability: float | None = None
    cut: bool | None = None
    """Whether the output ends at its limit."""
    cut_input: bool | None = None
    """Whether the input was too long."""
    length: int | None = None
    """Number of ids, end of sequence included."""
    input_length: int | None = None
    """Number of ids that are read of the input, without end of sequence."""


@dataclasses.dataclass(frozen=True)
class Parity:
    """Result of comparing the outputs of an export with its run's."""

    inputs: int
    identical: int | None
    """Number of inputs with identical ids and texts; None if only scores of given outputs are compared."""
    largest_difference: float
    """Largest difference between scores of identical outputs; infinite if any number is NaN or infinite."""
    promise: Promise | None = None
    first: str = ""
    """Describes the first difference."""

    def demand(self, what: str, promise: Promise | None) -> Self:
        """Checks the comparison against a requirement and returns it; without one, numbers must only be finite.

        Raises:
            ParityError: the requirement is not met, or a number is NaN or infinite; `what` names the comparison.
        """
        # Conditions state what must be true, so that NaN, for which every comparison is False, never passes.
        kept = math.isfinite(self.largest_difference)
        if promise:
            kept = kept and self.largest_difference <= promise.score_difference
            kept = kept and (self.identical is None or self.identical >= promise.identical_share * self.inputs)
        if kept:
            return dataclasses.replace(self, promise=promise)
        wanted = f"promised: {promise}" if promise else "scores must be finite"
        raise ParityError(
            f"{what}: {self}; {wanted}", f"{self.first + '; ' if self.first else ''}the export is not kept"
        )

    def __str__(self) -> str:
        same = "" if self.identical is None else f"{self.identical:,} of "
        return (
            f"{same}{self.inputs:,} outputs are those of the run, scores differ by up to {self.largest_difference:.1g}"
        )

    def to_dict(self) -> dict[str, Any]:
        """Returns the comparison as JSON for the report."""
        found = {name: getattr(self, name) for name in ("inputs", "identical", "largest_difference")}
        return found | {"promised": self.promise and dataclasses.asdict(self.promise)}


def answers_of_run(
    translator: Translator, inputs: Sequence[Any], n_best: int = 1, **changes
) -> list[list[ComparedOutput]]:
    """Returns a run's raw outputs for texts or arrays, before any rewriting; see `Translator.translate`."""
    is_text = bool(inputs) and isinstance(inputs[0], str)
    found = (translator.translate if is_text else translator.translate_ids)(inputs, n_best, **changes)
    return [[_answer(translator, hypothesis) for hypothesis in hypotheses] for hypotheses in found]


def _answer(translator: Translator, hypothesis: Hypothesis) -> ComparedOutput:
    text = hypothesis.text
    if translator.rewrites_text:
        text = translator.problem.encoders[TARGETS].decode(hypothesis.ids)
    probability = None if hypothesis.log_prob is None else math.exp(hypothesis.log_prob)
    return ComparedOutput(hypothesis.ids, hypothesis.score, text, hypothesis.log_prob, probability, hypothesis.cut)


def largest_difference(ours: ComparedOutput, theirs: ComparedOutput) -> float:
    """Returns the largest relative difference among the numbers that the export provides."""
    names = [name for name in ("score", "log_prob", "probability") if getattr(theirs, name) is not None]
    return max(relative_difference(getattr(ours, name), getattr(theirs, name)) for name in names)


def difference_per_token(ours: ComparedOutput, theirs: ComparedOutput) -> float:
    """Returns the difference of two log-probabilities of one output, in nats per token."""
    return finite_or_inf(abs(ours.score - theirs.score) / max(1, len(ours.ids or ())))


def compare(
    expected: Sequence[Sequence[ComparedOutput]],
    found: Sequence[Sequence[ComparedOutput]],
    measure: Callable[[ComparedOutput, ComparedOutput], float] = largest_difference,
) -> Parity:
    """Compares the outputs of a run (`expected`) and its export, input by input.

    `measure` is the difference of the figures of two equal outputs.
    """
    identical, largest, first = 0, 0.0, ""
    for number, (ours, theirs) in enumerate(zip(expected, found, strict=True), start=1):
        figures = [figure for one in (*ours, *theirs) for figure in (one.score, one.log_prob, one.probability)]
        if not all(figure is None or math.isfinite(figure) for figure in figures):
            largest = math.inf
            first = first or f"input {number} has a figure that is not finite: {_format_answers(theirs)}"
        if len(ours) == len(theirs) and all(map(_is_same, ours, theirs)):
            identical += 1
            largest = max([largest, *(measure(*pair) for pair in zip(ours, theirs, strict=True))])
        else:
            first = first or (
                f"the first that is not is input {number}: {_format_answers(theirs)} instead of {_format_answers(ours)}"
            )
    return Parity(len(expected), identical, largest, first=first)


def compare_per_token(expected: Sequence[ComparedOutput], found: Sequence[float]) -> Parity:
    """Compares log-probabilities of a run's outputs (`expected`) with their log-probabilities under its export."""
    pairs = zip(expected, found, strict=True)
    apart = (difference_per_token(ours, ComparedOutput(ours.ids, theirs)) for ours, theirs in pairs)
    return Parity(len(expected), None, max(apart, default=0.0))


def compare_scores(expected: Sequence[float], found: Sequence[float]) -> Parity:
    """Compares the scores of given outputs."""
    return Parity(len(expected), None, max(map(relative_difference, expected, found), default=0.0))


def compare_texts(expected: Sequence[str], found: Sequence[str]) -> Parity:
    """Compares the texts of given ids."""
    ours, theirs = ([[ComparedOutput(None, 0.0, text)] for text in texts] for texts in (expected, found))
    return compare(ours, theirs)


def _is_same(ours: ComparedOutput, theirs: ComparedOutput) -> bool:
    names = ("ids", "text", "cut", "cut_input", "length", "input_length")
    return all(getattr(theirs, name) in (None, getattr(ours, name)) for name in names)


def _format_answers(answers: Sequence[ComparedOutput]) -> str:
    if not answers:
        return "nothing"
    best = answers[0]
    return f"{str(best.ids if best.text is None else best.text)[:80]!r} ({best.score:.4f})"
