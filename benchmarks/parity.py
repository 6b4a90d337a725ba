"""Exports every model, or a trained run, to every format and compares outputs, size and time per line."""

import argparse
import dataclasses
import itertools
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from t2t.errors import UserError, one_line
from t2t.files.lines import read_lines
from t2t.formats.exporter import GREEDY, ExportJob
from t2t.formats.exporting import export, make_inputs
from t2t.formats.graph_script import CONFIG, Model
from t2t.formats.parity import FLOAT32
from t2t.hparams.groups import MASK_PREDICT, DecodeHParams
from t2t.inference.rows import reads_ids
from t2t.inference.translator import Translator
from t2t.models.base import SequenceModel
from t2t.problems.array_inputs import Image2Class, Speech2Text
from t2t.problems.base import Problem
from t2t.problems.text_problems import Text2Class, Text2Self, Text2Text
from t2t.registry import EXPORTERS, MODELS
from t2t.runs.trained_api import load
from t2t.specs import EOS_ID
from t2t.text.label import LabelEncoder
from t2t.text.words import TokenEncoder

WORDS, MOODS = TokenEncoder("abcdefgh"), ("good", "bad", "so so")
SMALL = {
    "hidden_size": 16, "filter_size": 24, "num_hidden_layers": 2, "num_heads": 2, "max_length": 32, "num_experts": 3,
    "num_rec_steps": 2, "layer_sizes": (1, 1), "img_len": 4, "block_length": 8,
}  # fmt: skip
"""Hparams of a small model; each family uses those that it has."""
SMALL_OF = {"shake_shake": {"num_hidden_layers": 8}}
PASSED, REFUSED, FAILED = "yes", "no", "FAILED"


class _NoSamples:
    """Mixin for a problem without data."""

    def generate_samples(self, split, source):
        """Yields nothing."""
        return iter(())


class _Text(_NoSamples, Text2Text):
    name = "text to text"


class _Alone(_NoSamples, Text2Self):
    name = "text alone"


class _Moods(_NoSamples, Text2Class):
    name, class_labels = "text to class", MOODS


class _Pictures(_NoSamples, Image2Class):
    name, class_labels, image_shape = "image to class", MOODS, (8, 8, 3)


class _Speech(_NoSamples, Speech2Text):
    name = "sound to text"


PROBLEMS: dict[str, Problem] = {
    problem.name: problem
    for problem in (
        _Text().with_encoders({"inputs": WORDS, "targets": WORDS}),
        _Alone().with_encoders({"targets": WORDS}),
        _Moods().with_encoders({"inputs": WORDS, "targets": LabelEncoder(MOODS)}),
        _Pictures().with_encoders({"targets": LabelEncoder(MOODS)}),
        _Speech().with_encoders({"targets": WORDS}),
    )
}


@dataclasses.dataclass(frozen=True)
class Outcome:
    """Result of exporting a model to a format."""

    model: str
    problem: str
    format: str
    """Name of the format; a quantization other than float32 follows after a colon."""
    verdict: str
    said: str
    """Comparison of the outputs, or the reason why there is no export."""
    megabytes: float | None = None
    """Size of all its files."""
    milliseconds: float | None = None
    """Time per line with the script in the export, if it has one."""


def main(argv: list[str]) -> int:
    """Exports and compares; returns 1 if an export fails or its outputs differ from its model's, else 0."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks parity", description=__doc__)
    parser.add_argument("--models", default=",".join(MODELS.names()), help="model names; default: all")
    parser.add_argument("--problems", default=",".join(PROBLEMS), help="problem names; default: all that fit a model")
    parser.add_argument("--formats", default=",".join(EXPORTERS.names()), help="such as onnx,litert,litert:int8")
    parser.add_argument("--lines", type=int, default=20, help="number of inputs for each comparison")
    parser.add_argument("--run", help="directory of a trained run, instead of small models of random weights")
    parser.add_argument("--file", type=Path, help="file with input lines for the run")
    arguments = parser.parse_args(argv)
    formats = arguments.formats.split(",")
    if unknown := set(arguments.problems.split(",")) - set(PROBLEMS):
        parser.error(f"--problems: there is no {', '.join(sorted(unknown))}; give some of {', '.join(PROBLEMS)}")
    if arguments.run:
        if not arguments.file:
            parser.error("--run: what is it asked? give lines of text with --file")
        return _measure_run(arguments.run, list(itertools.islice(_lines(arguments.file), arguments.lines)), formats)
    outcomes = []
    for name in arguments.models.split(","):
        for problem in _problems(MODELS.get(name), arguments.problems.split(",")):
            translator = _translator(name, problem)
            inputs = _inputs(translator, arguments.lines)
            outcomes += [_tried(translator, name, format, inputs) for format in formats]
    print("\n".join(table(outcomes)))
    return int(any(outcome.verdict == FAILED for outcome in outcomes))


def _lines(file: Path) -> Iterator[str]:
    return (line for line in read_lines(file, Counter()) if line.strip())


def _measure_run(run: str, texts: list[str], formats: list[str]) -> int:
    """Prints the table of a trained run; returns 1 if an export fails or its outputs differ, else 0."""
    translator = load(run)
    megabytes = sum(np.prod(variable.shape) for variable in translator.model.variables) * 4 / 1e6
    took = _milliseconds(lambda text: translator.translate([text], **GREEDY), texts)
    outcomes = [Outcome("", "", "the run, TensorFlow", PASSED, "", megabytes, took)]
    outcomes += [_tried(translator, Path(run).name, format, texts) for format in formats]
    print("\n".join(table_of_run(outcomes)))
    return int(any(outcome.verdict == FAILED for outcome in outcomes))


def table_of_run(outcomes: Sequence[Outcome]) -> list[str]:
    """Returns the lines of a Markdown table of the exports of one model."""
    lines = ["| format | answers | MB | ms a line |", "|---|---|---|---|"]
    for one in outcomes:
        figures = (f"{figure:.1f}" if figure else "" for figure in (one.megabytes, one.milliseconds))
        lines.append(f"| {one.format} | {one.said} | {' | '.join(figures)} |")
    return lines


def _milliseconds(answer: Callable[[Any], Any], inputs: Sequence[Any]) -> float:
    """Returns the mean milliseconds per input, one at a time, after a warm-up pass over all inputs."""
    for given in inputs:
        answer(given)
    begin = time.perf_counter()
    for given in inputs:
        answer(given)
    return (time.perf_counter() - begin) * 1e3 / len(inputs)


def table(outcomes: list[Outcome]) -> list[str]:
    """Returns the lines of a Markdown table, followed by the reasons for missing exports."""
    formats = list(dict.fromkeys(one.format for one in outcomes))
    lines = [f"| model | problem | {' | '.join(formats)} |", "|---" * (2 + len(formats)) + "|"]
    found = {(one.model, one.problem, one.format): one for one in outcomes}
    for model, problem in dict.fromkeys((one.model, one.problem) for one in outcomes):
        verdicts = [found[model, problem, format].verdict for format in formats]
        lines.append(f"| `{model}` | {problem} | {' | '.join(verdicts)} |")
    reasons: dict[str, list[str]] = {}
    for one in outcomes:
        if one.verdict != PASSED:
            reasons.setdefault(one.said, []).append(f"{one.model} ({one.problem})")
    return [*lines, "", *(f"- {', '.join(models)}: {said}" for said, models in reasons.items())]


def _problems(model_class: type[SequenceModel], names: list[str]) -> Iterator[Problem]:
    """Yields those of the named problems that a model accepts."""
    for name in names:
        problem = PROBLEMS[name]
        try:
            model_class.check_accepts(problem.spec())
        except UserError:
            continue
        yield problem


def _translator(name: str, problem: Problem) -> Translator:
    """Returns a translator of a small model, with random weights so large that no two outputs score the same."""
    model_class = MODELS.get(name)
    fields = {field.name for field in dataclasses.fields(model_class.hparams_class)}
    sizes = SMALL | SMALL_OF.get(name, {})
    hparams = model_class.hparams_class(**{field: value for field, value in sizes.items() if field in fields})
    model, rng = model_class(hparams, problem.spec()), np.random.default_rng(5)
    for variable in model.variables:
        if len(variable.shape) > 1:
            variable.assign(rng.normal(0.0, 1.5 * variable.shape[-2] ** -0.5, variable.shape))
    if model.target_embedding is not None and model.autoregressive:
        table_VD = np.asarray(model.target_embedding.table).copy()
        table_VD[EOS_ID] = 0.0  # lets outputs reach some length
        model.target_embedding.table.assign(table_VD)
    search: dict[str, Any] = {"decode_method": MASK_PREDICT} if model_class.mask_predicts else {"beam_size": 3}
    return Translator(problem, model, DecodeHParams(extra_length=5, **search))


def _tried(translator: Translator, model: str, asked: str, inputs: list[Any]) -> Outcome:
    format, _, quantization = asked.partition(":")
    megabytes = milliseconds = None
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch) / "export"
        try:
            found = export(
                translator, ExportJob(folder=folder, format=format, quantization=quantization or FLOAT32), inputs
            )
            verdict, said = PASSED, "; ".join(f"{what}: {parity}" for what, parity in found.items())
            megabytes = sum(file.stat().st_size for file in folder.rglob("*") if file.is_file()) / 1e6
            if (folder / CONFIG).exists() and isinstance(inputs[0], str):
                milliseconds = _milliseconds(Model(folder).translate, inputs)
        except UserError as error:
            verdict, said = REFUSED, one_line(error)
        except Exception as error:  # continue with the others
            verdict, said = FAILED, f"{type(error).__name__}: {one_line(error)}"
    print(f"# {model}, {translator.problem.name}, {asked}: {verdict}, {said}", flush=True)
    return Outcome(model, translator.problem.name, asked, verdict, said, megabytes, milliseconds)


def _inputs(translator: Translator, count: int) -> list[Any]:
    if not reads_ids(translator.model):
        return make_inputs(translator, count)
    rng = np.random.default_rng(1)
    return [" ".join(rng.choice(list("abcdefgh"), rng.integers(1, 9))) for _ in range(count)]
