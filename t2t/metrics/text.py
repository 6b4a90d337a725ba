"""Metrics of decoded text: BLEU, chrF, chrF++ and TER by sacreBLEU, and exact match.

sacreBLEU: Post 2018 (arXiv:1804.08771). Texts are given detokenised; metrics tokenise them if needed.
"""

import dataclasses
import inspect
from collections.abc import Sequence
from typing import Any

from sacrebleu import SACREBLEU_DIR
from sacrebleu.metrics import BLEU, CHRF, TER

from t2t.errors import UnknownNameError, UserError, did_you_mean, one_line
from t2t.files.atomic import os_errors_as_machine_errors
from t2t.metrics.base import Score, check_lines, lower_is_better
from t2t.metrics.languages import bleu_tokenizer
from t2t.registry import register_metric

SACREBLEU_METRICS: dict[str, type] = {"bleu": BLEU, "chrf": CHRF, "ter": TER}
"""sacreBLEU's classes by our names."""

_CHOICES = {"tokenize": BLEU.TOKENIZERS, "smooth_method": BLEU.SMOOTH_DEFAULTS}


@register_metric("bleu")
def bleu(
    hypotheses: Sequence[str],
    references: Sequence[str],
    language: str = "",
    more_references: Sequence[Sequence[str]] = (),
    **options: Any,
) -> Score:
    """Corpus BLEU of detokenised text, from 0 to 100: Papineni et al. 2002, as sacreBLEU computes it.

    `language`, the code of both sides' language, chooses the tokenizer, see `bleu_tokenizer`. Options are sacreBLEU's,
    e.g. `tokenize="intl"`, `lowercase=True`; by default the language's tokenizer, cased. `more_references` holds lists
    of further references.

    Raises:
        UserError: no lines, unequal numbers of lines, or an option or value that sacreBLEU does not know.
        MachineError: the model of a tokenizer such as `flores200`, which sacreBLEU downloads, cannot be had.
    """
    options = {"tokenize": bleu_tokenizer(language), **options}
    scored, signature = _sacrebleu("bleu", BLEU, hypotheses, (references, *more_references), options)
    detail = {
        "precisions": list(scored.precisions),
        "brevity_penalty": scored.bp,
        "hypothesis_tokens": scored.sys_len,
        "reference_tokens": scored.ref_len,
    }
    return Score("bleu", scored.score, signature, detail=detail, text=str(scored))


@register_metric("chrf")
def chrf(
    hypotheses: Sequence[str], references: Sequence[str], more_references: Sequence[Sequence[str]] = (), **options: Any
) -> Score:
    """Character n-gram F-score, from 0 to 100: Popovic 2015, as sacreBLEU computes it.

    Arguments and errors are those of `bleu`, except for the language; `word_order=2` gives chrF++.
    """
    scored, signature = _sacrebleu("chrf", CHRF, hypotheses, (references, *more_references), options)
    return Score("chrf", scored.score, signature, text=str(scored))


@register_metric("chrf_plus_plus")
def chrf_plus_plus(
    hypotheses: Sequence[str], references: Sequence[str], more_references: Sequence[Sequence[str]] = (), **options: Any
) -> Score:
    """chrF++, from 0 to 100: chrF that counts words and pairs of words, too (Popovic 2017), as sacreBLEU computes it.

    Arguments and errors are those of `chrf`.
    """
    score = chrf(hypotheses, references, more_references, **{"word_order": 2, **options})
    return dataclasses.replace(score, name="chrf_plus_plus")


@register_metric("ter")
@lower_is_better
def ter(
    hypotheses: Sequence[str], references: Sequence[str], more_references: Sequence[Sequence[str]] = (), **options: Any
) -> Score:
    """Translation edit rate in percent, 0 or more: Snover et al. 2006, as sacreBLEU computes it.

    Words put in, left out, replaced or moved with their neighbours, as a percentage of the references' words. Options
    are sacreBLEU's, e.g. `normalized=True`, `case_sensitive=True`; errors are those of `bleu`.
    """
    scored, signature = _sacrebleu("ter", TER, hypotheses, (references, *more_references), options)
    detail = {"edits": scored.num_edits, "reference_length": scored.ref_length}
    return Score("ter", scored.score, signature, higher_is_better=False, detail=detail, text=str(scored))


@register_metric("accuracy_per_sequence")
def accuracy_per_sequence(
    hypotheses: Sequence[str], references: Sequence[str], more_references: Sequence[Sequence[str]] = ()
) -> Score:
    """Fraction of lines, from 0 to 1, that equal their reference, or one of them, character for character."""
    for lines in (references, *more_references):
        check_lines("accuracy_per_sequence", hypotheses, lines)
    equal = sum(line in right for line, *right in zip(hypotheses, references, *more_references, strict=True))
    detail = {"equal": equal, "lines": len(references)}
    return Score("accuracy_per_sequence", equal / len(references), detail=detail)


def _check_options(name: str, metric_class: type, options: dict[str, Any]) -> None:
    """Raises UnknownNameError for an option or value that sacreBLEU does not know; its own errors are unclear."""
    known = [option for option in inspect.signature(metric_class).parameters if option != "references"]
    for option, value in options.items():
        if option not in known:
            raise _unknown(f"option {option!r} of {name}", option, known)
        choices = sorted(_CHOICES.get(option, ()))
        if choices and value is not None and value not in choices:
            raise _unknown(f"{option} {value!r} of {name}", str(value), choices)


def _unknown(asked: str, name: str, known: list[str]) -> UnknownNameError:
    return UnknownNameError(
        f"{asked}: sacreBLEU has none of that name; {did_you_mean(name, known)}it has {', '.join(known)}"
    )


def _sacrebleu(
    name: str,
    metric_class: type,
    hypotheses: Sequence[str],
    references: Sequence[Sequence[str]],
    options: dict[str, Any],
) -> tuple[Any, str]:
    """Returns sacreBLEU's score object and signature; `references` are one or several sides."""
    for lines in references:
        check_lines(name, hypotheses, lines)
    metric = sacrebleu_metric(name, metric_class, options)
    scored = metric.corpus_score(list(hypotheses), [list(lines) for lines in references])
    return scored, str(metric.get_signature())


def sacrebleu_metric(name: str, metric_class: type, options: dict[str, Any]) -> Any:
    """Returns an object of one of sacreBLEU's classes.

    Raises:
        UserError: an option or value that it refuses.
        MachineError: the model of a tokenizer cannot be downloaded or read.
    """
    _check_options(name, metric_class, options)
    asked = ", ".join([name, *(f"{option}={value}" for option, value in options.items())])
    try:
        with os_errors_as_machine_errors(
            f"{asked}: the tokenizer needs a model, which sacreBLEU downloads once to {SACREBLEU_DIR}/models"
        ):
            return metric_class(**options)
    except (AssertionError, ImportError, RuntimeError, TypeError, ValueError) as error:
        raise UserError(f"{asked}: sacreBLEU cannot compute it: {one_line(error)}") from error
