"""Decodes a split of generated data, and scores outputs by the metrics of their problem."""

from collections.abc import Callable, Sequence

from t2t.errors import UserError
from t2t.hparams.base import HParams
from t2t.inference.rows import ModelFacts
from t2t.inference.split_examples import SplitExamples
from t2t.inference.translator import Hypothesis, Translator
from t2t.metrics import Score, compute, text_metrics
from t2t.problems.base import Problem
from t2t.runs.data import OpenData, check_split
from t2t.specs.features import FeatureKind


def decodes(model: ModelFacts, problem: Problem) -> bool:
    """Returns whether a model decodes inputs to outputs that can be compared with references.

    A masked language model is trained on hidden words only; its predictions for other words mean nothing.
    """
    answers = model.spec.inputs is not None and model.spec.targets.kind in (FeatureKind.TOKENS, FeatureKind.LABEL)
    return answers and problem.masking() is None


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
            f"decoding the {split} split of {data.problem.name}: words are hidden in training and evaluation alone; "
            f"evaluate it with t2t-eval"
        )
    if not decodes(translator.facts, data.problem):
        targets = translator.facts.spec.targets.kind
        what = f"its targets are {targets}" if translator.has_inputs else "it has no inputs to answer"
        raise UserError(f"decoding the {split} split of {data.problem.name}: {what}; evaluate it with t2t-eval")
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
