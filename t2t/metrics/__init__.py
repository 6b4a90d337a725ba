"""Metrics of decoded text (`compute`) and of teacher-forced predictions (`t2t.metrics.token`).

Both kinds may have the same name (`accuracy_per_sequence`); that of a teacher-forced figure always has its label.
"""

import dataclasses
import inspect
import logging
import math
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from t2t.errors import UnknownNameError, UserError, did_you_mean
from t2t.metrics.base import Score, TextMetric, check_lines, lower_is_better
from t2t.metrics.token import FIGURES, LABEL, TokenSums, teacher_forced
from t2t.registry import METRICS, register_metric
from t2t.registry.overrides import PluginError, described, is_of_plugin, plugin_errors

log = logging.getLogger("t2t")


def metric_names() -> list[str]:
    """Returns every name that a problem may declare, sorted."""
    return sorted({*METRICS.names(), *FIGURES})


def is_text_metric(name: str) -> bool:
    """Returns whether a metric can be computed from decoded text.

    Raises:
        UnknownNameError: no such metric.
    """
    if name.startswith(LABEL):
        higher_is_better(name)
        return False
    _check_name(name)
    return name in METRICS


def text_metrics(names: Iterable[str]) -> list[str]:
    """Returns those of a problem's metrics that score decoded text; without any, accuracy_per_sequence."""
    return [name for name in names if is_text_metric(name)] or ["accuracy_per_sequence"]


def check_text_metric(name: str) -> None:
    """Raises UserError for a metric that cannot be computed from decoded text."""
    if not is_text_metric(name):
        raise UserError(
            f"metric {name!r} of decoded text: it is teacher-forced, so it needs the model's predictions",
            f"text has {', '.join(METRICS.names())}",
        )


def reads_inputs(name: str) -> bool:
    """Returns whether a text metric also reads the inputs, by its parameter `sources`."""
    return "sources" in inspect.signature(METRICS.get(name)).parameters


def check_references(names: Iterable[str]) -> None:
    """Raises UserError for a text metric that reads one reference of a line only: it lacks `more_references`."""
    for name in names:
        if "more_references" not in inspect.signature(METRICS.get(name)).parameters:
            raise UserError(
                f"metric {name!r}: it reads one reference of each line, and several are given",
                "name one, or score the file with t2t-bleu",
            )


def higher_is_better(name: str) -> bool:
    """Returns whether larger values of a metric, labelled `teacher_forced/` or not, are better.

    It must be known before there is any score, so that it is what the metric declares, see `lower_is_better`.

    Raises:
        UnknownNameError: no such metric.
    """
    bare = name.removeprefix(LABEL)
    if bare != name and bare not in FIGURES:
        raise UnknownNameError(unknown_metric(name, [LABEL + figure for figure in FIGURES]))
    _check_name(bare)
    if bare in METRICS and bare == name:
        return getattr(METRICS.get(bare), "higher_is_better", True)
    return FIGURES[bare].higher_is_better


def compute(
    names: Iterable[str],
    hypotheses: Sequence[str],
    references: Sequence[str],
    language: str = "",
    read_sources: Callable[[], Sequence[str]] | None = None,
    more_references: Sequence[Sequence[str]] = (),
) -> dict[str, Score]:
    """Computes text metrics with their default options; returns the scores by name, in the order of `names`.

    Both sides are one string per line. `language` is the code of their language, empty if it is not known; metrics that
    do not depend on it ignore it. `read_sources` returns the inputs, for metrics that read them; `more_references` are
    further references, each with a string for each line.

    Raises:
        UnknownNameError: no such metric.
        UserError: a metric needs the model's predictions; there are no lines or unequal numbers of lines; a metric
            reads inputs and there are none, or one reference and there are several; or its score says that smaller
            values are better, and it does not.
    """
    names = list(names)
    for name in names:
        check_text_metric(name)
        check_lines(name, hypotheses, references)
    if more_references:
        check_references(names)
    scores = {}
    for name in names:
        metric = METRICS.get(name)
        by_language = language and "language" in inspect.signature(metric).parameters
        options: dict[str, Any] = {"language": language} if by_language else {}
        if reads_inputs(name):
            options["sources"] = _sources(name, read_sources, len(references))
        if more_references:
            options["more_references"] = more_references
        with plugin_errors(metric, "failed"):
            score = metric(hypotheses, references, **options)
        scores[name] = _with_direction(name, _checked(metric, score))
    return scores


def _checked(metric: TextMetric, score: Any) -> Score:
    """Returns what a metric has returned, with its value as a float; raises PluginError if it is not a score."""
    value: Any = getattr(score, "value", None)
    if not isinstance(score, Score) or isinstance(value, str) or not hasattr(value, "__float__"):
        found = f"a Score whose value is of type {type(value).__name__}" if isinstance(score, Score) else ""
        raise PluginError(
            f"{described(metric)} returned {found or type(score).__name__}",
            f'it must return a t2t.Score: return Score("{getattr(metric, "__name__", "name")}", the number)',
        )
    if is_of_plugin(metric) and not math.isfinite(value):
        log.warning("%s returned %s, with which no checkpoint can be the best", described(metric), value)
    return score if isinstance(value, int | float) else dataclasses.replace(score, value=float(value))


def _with_direction(name: str, score: Score) -> Score:
    """Returns a score that says the same as its metric about which values are better."""
    declared = higher_is_better(name)
    if declared and not score.higher_is_better:
        raise UserError(
            f"metric {name!r}: its Score has higher_is_better=False, and the metric does not declare it, so that its "
            "largest value would select the best checkpoint",
            "write @t2t.lower_is_better below @t2t.register_metric",
        )
    return score if score.higher_is_better == declared else dataclasses.replace(score, higher_is_better=declared)


def _sources(name: str, read_sources: Callable[[], Sequence[str]] | None, lines: int) -> Sequence[str]:
    if read_sources is None:
        raise UserError(f"metric {name!r} reads inputs as text, and there are none here", "choose another metric")
    sources = read_sources()
    if len(sources) != lines:
        raise UserError(f"metric {name!r}: {len(sources)} inputs for {lines} references", "each needs its own")
    return sources


def _check_name(name: str) -> None:
    if name not in METRICS and name not in FIGURES:
        raise UnknownNameError(unknown_metric(name))


def unknown_metric(name: str, known: Sequence[str] = ()) -> str:
    """Returns the error about a metric that is not among the known ones, by default all."""
    known = known or metric_names()
    return f"metric {name!r} is not known; {did_you_mean(name, known)}there are {', '.join(known)}"


__all__ = [
    "LABEL", "METRICS", "Score", "TextMetric", "TokenSums", "check_lines", "check_text_metric", "compute",
    "higher_is_better", "is_text_metric", "lower_is_better", "metric_names", "reads_inputs", "register_metric",
    "teacher_forced", "unknown_metric",
]  # fmt: skip
