"""Tries every model in every format of exports, and prints which answer as the model does."""

import argparse
import dataclasses
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from t2t.errors import UserError, one_line
from t2t.export.exporting import export
from t2t.export.formats import FORMATS
from t2t.export.job import ExportJob
from t2t.hparams.groups import MASK_PREDICT, DecodeHParams
from t2t.inference.translator import Translator
from t2t.models.base import SequenceModel
from t2t.problems.base import Problem
from t2t.problems.text_problems import Text2Class, Text2Self, Text2Text
from t2t.registry import MODELS
from t2t.specs.constants import EOS_ID
from t2t.text.label import LabelEncoder
from t2t.text.token import TokenEncoder

WORDS, MOODS = TokenEncoder("abcdefgh"), ("good", "bad", "so so")
SMALL = {"hidden_size": 16, "filter_size": 24, "num_hidden_layers": 2, "num_heads": 2, "max_length": 32}
PASSED, REFUSED, FAILED = "yes", "no", "FAILED"


class _NoSamples:
    """Of a problem whose data nobody generates."""

    def generate_samples(self, split, source):
        """Has none."""
        return iter(())


class _Text(_NoSamples, Text2Text):
    name = "text to text"


class _Alone(_NoSamples, Text2Self):
    name = "text alone"


class _Moods(_NoSamples, Text2Class):
    name, class_labels = "text to class", MOODS


@dataclasses.dataclass(frozen=True)
class Outcome:
    """How an export of a model went."""

    model: str
    problem: str
    format: str
    verdict: str
    said: str
    """How the two compare, or why there is no export."""


def main(argv: list[str]) -> int:
    """Tries all of them; returns 1 where an export does not answer as its model does."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks parity", description=__doc__)
    parser.add_argument("--models", default=",".join(MODELS.names()), help="some of them; default all")
    parser.add_argument("--lines", type=int, default=20, help="inputs that each is asked")
    arguments = parser.parse_args(argv)
    outcomes = []
    for name in arguments.models.split(","):
        for problem in _problems(MODELS.get(name)):
            translator = _translator(MODELS.get(name), problem)
            outcomes += [_tried(translator, name, format, _lines(arguments.lines)) for format in FORMATS]
    print("\n".join(table(outcomes)))
    return int(any(outcome.verdict == FAILED for outcome in outcomes))


def table(outcomes: list[Outcome]) -> list[str]:
    """Returns the lines of a table in Markdown, and below it the reasons why there is no export."""
    lines = [f"| model | problem | {' | '.join(FORMATS)} |", "|---" * (2 + len(FORMATS)) + "|"]
    found = {(one.model, one.problem, one.format): one for one in outcomes}
    for model, problem in dict.fromkeys((one.model, one.problem) for one in outcomes):
        verdicts = [found[model, problem, format].verdict for format in FORMATS]
        lines.append(f"| `{model}` | {problem} | {' | '.join(verdicts)} |")
    reasons: dict[str, list[str]] = {}
    for one in outcomes:
        if one.verdict != PASSED:
            reasons.setdefault(one.said, []).append(f"{one.model} ({one.problem})")
    return [*lines, "", *(f"- {', '.join(models)}: {said}" for said, models in reasons.items())]


def _problems(model_class: type[SequenceModel]) -> Iterator[Problem]:
    """Yields the problems of text that a model learns."""
    for problem in (
        _Text().with_encoders({"inputs": WORDS, "targets": WORDS}),
        _Alone().with_encoders({"targets": WORDS}),
        _Moods().with_encoders({"inputs": WORDS, "targets": LabelEncoder(MOODS)}),
    ):
        try:
            model_class.check_accepts(problem.spec())
        except UserError:
            continue
        yield problem


def _translator(model_class: type[SequenceModel], problem: Problem) -> Translator:
    """Returns a small model of random weights, steep enough that no two outputs are as good as each other."""
    fields = {field.name for field in dataclasses.fields(model_class.hparams_class)}
    hparams = model_class.hparams_class(**{name: value for name, value in SMALL.items() if name in fields})
    model, rng = model_class(hparams, problem.spec()), np.random.default_rng(5)
    for variable in model.variables:
        if len(variable.shape) > 1:
            variable.assign(rng.normal(0.0, 1.5 * variable.shape[-2] ** -0.5, variable.shape))
    if model.target_embedding is not None and model.autoregressive:
        table_VD = np.asarray(model.target_embedding.table).copy()
        table_VD[EOS_ID] = 0.0  # outputs of some length
        model.target_embedding.table.assign(table_VD)
    search: dict[str, Any] = {"decode_method": MASK_PREDICT} if model_class.mask_predicts else {"beam_size": 3}
    return Translator(problem, model, DecodeHParams(extra_length=5, **search))


def _tried(translator: Translator, model: str, format: str, lines: list[str]) -> Outcome:
    with tempfile.TemporaryDirectory() as scratch:
        job = ExportJob(folder=Path(scratch) / "export", format=format)
        try:
            found = export(translator, job, lines)
            verdict, said = PASSED, "; ".join(f"{what}: {parity}" for what, parity in found.items())
        except UserError as error:
            verdict, said = REFUSED, one_line(error)
        except Exception as error:  # the others are tried all the same
            verdict, said = FAILED, f"{type(error).__name__}: {one_line(error)}"
    print(f"# {model}, {translator.problem.name}, {format}: {verdict}, {said}", flush=True)
    return Outcome(model, translator.problem.name, format, verdict, said)


def _lines(count: int) -> list[str]:
    rng = np.random.default_rng(1)
    return [" ".join(rng.choice(list("abcdefgh"), rng.integers(1, 9))) for _ in range(count)]
