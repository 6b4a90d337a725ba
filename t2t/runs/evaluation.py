"""Evaluates runs on splits of generated data, decodes and scores these, and compares two engines on a split."""

import dataclasses
import functools
import logging
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from t2t.checkpoints.run_dir import RunDir
from t2t.data.reading.eval_batches import EvalBatches
from t2t.errors import UserError
from t2t.hparams.base import HParams
from t2t.inference.engine import Engine
from t2t.inference.fallback import FallbackEngine
from t2t.inference.rows import describe_max_ids, max_sequence_ids
from t2t.inference.split_examples import SplitExamples
from t2t.inference.translator import Hypothesis, Translator
from t2t.metrics import Score, compute, text_metrics
from t2t.problems.base import Problem
from t2t.runs.data import OpenData, check_split, open_run_data
from t2t.runs.run_checks import select_problems
from t2t.runs.startup import prepare_framework
from t2t.runs.trained_problems import cut_reader, decodes
from t2t.specs import EOS_ID

if TYPE_CHECKING:
    from t2t.inference.evaluator import Evaluator
    from t2t.inference.parallel import Sharing
    from t2t.models.base import SequenceModel
    from t2t.runs.loading import LoadedRun

log = logging.getLogger("t2t")


@dataclasses.dataclass(frozen=True)
class Evaluation:
    """Figures of a checkpoint on a split; printed, a line each."""

    what: str
    """Which examples and which checkpoint, as a line."""
    step: int
    """Updates that the checkpoint was trained for."""
    examples: int
    """Number of examples evaluated, from the start of the split."""
    of: int
    """Number of examples in the split."""
    figures: dict[str, float]
    """Teacher-forced figures, by labelled name."""
    scores: list[Score]
    """Of real decodes, by the problem's metrics."""

    def __str__(self) -> str:
        figures = [f"{name} = {value:.4f}" for name, value in self.figures.items()]
        return "\n".join([self.what, *map(str, self.scores), *figures])


def open_split(
    run: RunDir, load: "Callable[[str], LoadedRun]", problem: str, data_dir: str, split: str
) -> "Iterator[tuple[LoadedRun, OpenData]]":
    """Loads a run and opens a split of data for each of its problems; all data is checked before any model is loaded.

    Args:
        run: a run.
        load: loads it for one of its problems.
        problem: only this one; empty for all problems of the run.
        data_dir: folder of the data.
        split: name of the split.

    Raises:
        UserError: another problem, no data, no such split, data of another vocabulary.
    """
    names = select_problems(run, problem)
    opened = {name: open_run_data(run, data_dir, name, split, verify=False) for name in names}
    for data in opened.values():
        check_split(data, split)
    for name, data in opened.items():
        loaded = load(name)
        data.verify()
        yield loaded, data


def evaluate(loaded: "LoadedRun", data: OpenData, split: str, eval_steps: int) -> Evaluation:
    """Evaluates a run on the first `eval_steps` batches of a split; 0 for all of it."""
    prepare_framework()
    model, hparams, problem = loaded.model, loaded.hparams, data.problem
    engine = loaded.translator().engine if decodes(model, problem) else None
    evaluator = build_evaluator(model, data, split, hparams, eval_steps, problem.metrics, engine=engine)
    examples = len(first_examples(data, split, hparams, eval_steps))
    figures, scores = evaluator.teacher_forced(), list(evaluator.scores().values())
    what = describe_examples(loaded, data, split, examples)
    return Evaluation(what, loaded.checkpoint.step, examples, len(data.readers[split]), figures, scores)


def describe_examples(loaded: "LoadedRun", data: OpenData, split: str, examples: int) -> str:
    """Returns a line that says on how many examples of a split which checkpoint is evaluated."""
    what = f"{examples:,} of {len(data.readers[split]):,} {split} examples of {loaded.problem.name}"
    return f"{what}, {loaded.checkpoint.name} ({loaded.checkpoint.step:,} updates)"


def build_evaluator(
    model: "SequenceModel",
    data: OpenData,
    split: str,
    hparams: HParams,
    eval_steps: int,
    metrics: Sequence[str],
    sharing: "Sharing | None" = None,
    engine: Engine | None = None,
) -> "Evaluator":
    """Returns an evaluator of a split, which decodes with the run's hparams; with `sharing`, workers share the work."""
    from t2t.inference.evaluator import Evaluator

    check_split(data, split)
    examples = first_examples(data, split, hparams, eval_steps)
    batches = EvalBatches(
        cut_reader(data, split, hparams), hparams.batch_size, columns=data.problem.columns, limit=len(examples),
        max_length=max_sequence_ids(model, hparams), ladder_step=1.0, masking=data.problem.masking(),
    )  # fmt: skip
    if batches.shortened:
        longest = describe_max_ids(model, hparams)
        log.warning("%s: %d examples are longer than %s and are cut for evaluation", split, batches.shortened, longest)
    language = data.problem.target_language
    if not decodes(model, data.problem):
        return Evaluator(model, batches, None, metrics, language, sharing=sharing)
    translator = Translator(data.problem, model, hparams, sharing, engine)

    def decode() -> tuple[list[str], list[str]]:
        return [found[0].text for found in examples.decode(translator, scored=False)], examples.references()

    warm_up = functools.partial(translator.warm_up, examples.inputs())
    return Evaluator(model, batches, decode, metrics, language, warm_up, sharing, examples.read_sources)


def first_examples(data: OpenData, split: str, hparams: HParams, eval_steps: int) -> SplitExamples:
    """Returns the examples of about `eval_steps` batches, 0 for all."""
    examples = SplitExamples(data.problem, data.readers[split])
    return examples.take_tokens(eval_steps * hparams.batch_size) if eval_steps else examples


def decode_and_score(
    translator: Translator, data: OpenData, split: str, n_best: int = 1, **changes
) -> tuple[list[list[Hypothesis]], list[Score]]:
    """Decodes a split; returns the outputs of each example, best first, and the scores of the best ones.

    Raises:
        UserError: no such split, or the problem has no inputs to decode.
    """
    check_split(data, split)
    if data.problem.masking() is not None:
        raise UserError(
            f"decoding the {split} split of {data.problem.name}: words are hidden only in training and evaluation",
            "evaluate it with t2t-eval",
        )
    if not decodes(translator.facts, data.problem):
        targets = translator.facts.spec.targets.kind
        what = f"its targets are {targets}" if translator.has_inputs else "it has no inputs to answer"
        raise UserError(f"decoding the {split} split of {data.problem.name}: {what}", "evaluate it with t2t-eval")
    translator.settings(n_best, **changes)
    examples = SplitExamples(data.problem, data.readers[split])
    outputs = examples.decode(translator, n_best, **changes)
    return outputs, score_outputs(data.problem, outputs, examples)


def score_outputs(problem: Problem, outputs: Sequence[Sequence[Hypothesis]], examples: SplitExamples) -> list[Score]:
    """Returns the scores of the best outputs by the problem's text metrics; without any, the accuracy."""
    hypotheses = [found[0].text for found in outputs]
    return score_texts(problem, hypotheses, examples.references(), problem.target_language, examples.read_sources)


def score_texts(
    problem: Problem,
    hypotheses: Sequence[str],
    references: Sequence[str],
    language: str,
    read_sources: Callable[[], Sequence[str]] | None,
    more_references: Sequence[Sequence[str]] = (),
) -> list[Score]:
    """Returns the scores of texts as `score_outputs`; the last three arguments as those of `t2t.metrics.compute`."""
    names = text_metrics(problem.metrics)
    return list(compute(names, hypotheses, references, language, read_sources, more_references).values())


@dataclasses.dataclass(frozen=True)
class EngineComparison:
    """The results of an engine compared with TensorFlow's."""

    scores: dict[str, list[Score]]
    """By the name of the engine."""
    identical: int
    """Number of inputs whose best outputs have the same ids."""
    differences: np.ndarray
    """Absolute differences of the log-probabilities that the two give to TensorFlow's best output for each input:
    (inputs,) float64, in nats per token."""

    def __str__(self) -> str:
        """Returns a line for each score and each kind of difference."""
        inputs, differences = len(self.differences), self.differences
        scores = [f"{name}: {score}" for name, found in self.scores.items() for score in found]
        outputs = f"the same output: {self.identical:,} of {inputs:,} inputs, {self.identical / inputs:.1%}"
        figures = f"difference of log-probabilities, nats per token: mean {differences.mean():.2g}, largest "
        return "\n".join([*scores, outputs, f"{figures}{differences.max():.2g}"])


def compare_engines(translator: Translator, examples: SplitExamples) -> EngineComparison:
    """Compares the engine of a translator, whose model decodes inputs, with TensorFlow.

    Raises:
        UserError: the engine leaves this search to TensorFlow.
    """
    rows: list[Any] = examples.inputs()
    engine = translator.engine
    if isinstance(engine, FallbackEngine) and (why := engine.refusal(translator.request(rows))):
        raise UserError(
            f"CTranslate2 leaves this search to TensorFlow: {why}", "ask for another", option="compare_engine"
        )
    full = Translator(translator.problem, translator.model, translator.hparams, engine=translator.model_engine)
    both = (translator, full)
    outputs = [examples.decode(one) for one in both]
    scores = [score_outputs(translator.problem, found, examples) for found in outputs]
    identical = sum(ours.ids == theirs.ids for (ours, *_), (theirs, *_) in zip(*outputs, strict=True))
    # Without the end of sequence, which scoring adds; an output of maximum length has none.
    found = [best.ids for best, *_ in outputs[1]]
    targets = [(ids[:-1] if ids[-1:] == (EOS_ID,) else ids)[: full.longest_target] for ids in found]
    log_probs = [np.array(one.score_ids(rows, targets)) for one in both]
    differences = np.abs(log_probs[0] - log_probs[1]) / [len(ids) + 1 for ids in targets]
    by_name = {one.engine.name: score for one, score in zip(both, scores, strict=True)}
    return EngineComparison(by_name, identical, differences)
