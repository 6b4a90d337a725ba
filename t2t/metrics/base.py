"""Scores, and the definition of text metrics, which are computed from decoded text.

A text metric is a function of two lists of strings. A new one, built in or in a plug-in::

    @register_metric
    def letters_per_line(hypotheses, references):
        \"\"\"Mean number of letters; references are not looked at.\"\"\"
        return Score("letters_per_line", sum(map(len, hypotheses)) / len(hypotheses))

If smaller values are better, put `@lower_is_better` under the registration. If the metric depends on the language of
the text, give it a parameter `language`: it gets the code of the language of the problem's targets. If it reads the
inputs, such as a neural metric, give it a parameter `sources`, a list of as many strings.
"""

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from t2t.errors import UserError


@dataclasses.dataclass(frozen=True)
class Score:
    """One number with everything needed to compare it with another."""

    name: str
    value: float
    signature: str = ""
    """How it was computed, in the tool's own notation; scores compare only where signatures agree."""
    higher_is_better: bool = True
    """False only if the metric also declares it, see `lower_is_better`."""
    detail: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    """The parts it is made of, by name; plain JSON."""
    text: str = ""
    """The tool's own output line, if it has one."""

    def __str__(self) -> str:
        """Returns one line for people: the tool's own and its signature, or name and value."""
        line = self.text or f"{self.name} = {self.value:.4f}"
        return f"{line} | {self.signature}" if self.signature else line


TextMetric = Callable[..., Score]
"""`metric(hypotheses, references, **options) -> Score`, over two lists of strings of one length."""


def lower_is_better(metric: TextMetric) -> TextMetric:
    """Declares, as a decorator below `register_metric`, that smaller values of a metric are better.

    By this, checkpoints are selected, training stops early, and studies search; a `Score` comes too late.
    """
    metric.higher_is_better = False  # type: ignore[attr-defined]  # a function takes attributes
    return metric


def check_lines(name: str, hypotheses: Sequence[Any], references: Sequence[Any]) -> None:
    """Raises UserError unless both sides have the same number of lines, at least one."""
    if len(hypotheses) != len(references):
        raise UserError(
            f"{name} of {len(hypotheses)} hypotheses against {len(references)} references: each needs its own",
            "give files with equal numbers of lines",
        )
    if not hypotheses:
        raise UserError(
            f"{name} of no lines: there is nothing to score", "give at least one hypothesis and its reference"
        )
