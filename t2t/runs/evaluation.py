"""Evaluates a model on a split of generated data."""

import dataclasses
import functools
import logging
from collections.abc import Sequence

from t2t.data.eval_batches import EvalBatches
from t2t.hparams.base import HParams
from t2t.inference.engine import Engine
from t2t.inference.evaluator import Evaluator
from t2t.inference.parallel import Sharing
from t2t.inference.rows import describe_max_ids, max_sequence_ids
from t2t.inference.translator import Translator
from t2t.metrics import Score
from t2t.models.base import SequenceModel
from t2t.runs.data import OpenData, check_split
from t2t.runs.split_batches import cut_reader
from t2t.runs.split_decoding import decodes, first_examples

log = logging.getLogger("t2t")


@dataclasses.dataclass(frozen=True)
class Evaluation:
    """Figures of a model on a split."""

    examples: int
    """Number of examples evaluated."""
    of: int
    """Number of examples in the split."""
    figures: dict[str, float]
    """Teacher-forced figures, by labelled name."""
    scores: list[Score]
    """Of real decodes, by the problem's metrics."""


def evaluate(
    model: SequenceModel,
    hparams: HParams,
    data: OpenData,
    split: str,
    eval_steps: int,
    metrics: Sequence[str],
    engine: Engine | None = None,
) -> Evaluation:
    """Evaluates a model on the first `eval_steps` batches of a split; 0 for all of it.

    `engine` decodes; None for TensorFlow.
    """
    evaluator = build_evaluator(model, data, split, hparams, eval_steps, metrics, engine=engine)
    examples = len(first_examples(data, split, hparams, eval_steps))
    figures, scores = evaluator.teacher_forced(), list(evaluator.scores().values())
    return Evaluation(examples, len(data.readers[split]), figures, scores)


def build_evaluator(
    model: SequenceModel,
    data: OpenData,
    split: str,
    hparams: HParams,
    eval_steps: int,
    metrics: Sequence[str],
    sharing: Sharing | None = None,
    engine: Engine | None = None,
) -> Evaluator:
    """Returns an evaluator of a split, which decodes with the run's hparams; with `sharing`, workers share the work."""
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
