"""Judging a model on a split of generated data, while it trains and afterwards."""

import dataclasses
import functools
import logging
from collections.abc import Iterator, Sequence

import numpy as np

from t2t.data.lengths import lengths_of
from t2t.data.pipeline import EvalBatches
from t2t.data.reader import SplitReader
from t2t.errors import UserError
from t2t.hparams.base import HParams
from t2t.inference.rows import Row, describe_max_ids, max_sequence_ids
from t2t.inference.translator import Hypothesis, Translator
from t2t.metrics import Score, compute, is_text_metric
from t2t.models.base import SequenceModel
from t2t.problems.base import Problem
from t2t.runs.data import OpenData, check_split
from t2t.specs.constants import INPUTS, TARGETS, TRAIN
from t2t.specs.features import FeatureKind
from t2t.training.evaluator import Evaluator

log = logging.getLogger("t2t")


@dataclasses.dataclass(frozen=True)
class Evaluation:
    """How good a model is on a split."""

    examples: int
    """How many examples were looked at."""
    of: int
    """How many the split has."""
    figures: dict[str, float]
    """Teacher-forced figures, by labelled name."""
    scores: list[Score]
    """Of real decodes, by the problem's metrics."""


@dataclasses.dataclass(frozen=True)
class DecodedSplit:
    """What a model wrote for a split."""

    outputs: list[list[Hypothesis]]
    """In the split's order; of each example as many as were asked for, best first."""
    scores: list[Score]
    """Of the best outputs, by the problem's metrics."""


def evaluate(
    model: SequenceModel, hparams: HParams, data: OpenData, split: str, eval_steps: int, metrics: Sequence[str]
) -> Evaluation:
    """Evaluates a model on the first `eval_steps` batches of a split (0 = all of it), scores with their signatures."""
    evaluator = build_evaluator(model, data, split, hparams, eval_steps, metrics)
    of = len(data.readers[split])
    examples = min(of, limit_of(data, split, hparams, eval_steps) or of)
    return Evaluation(examples, of, evaluator.teacher_forced(), list(evaluator.scores().values()))


def build_evaluator(
    model: SequenceModel, data: OpenData, split: str, hparams: HParams, eval_steps: int, metrics: Sequence[str]
) -> Evaluator:
    """Returns an evaluator of a split, decoding for real with the run's decode hparams."""
    check_split(data, split)
    reader, columns = data.readers[split], data.problem.columns
    limit = limit_of(data, split, hparams, eval_steps)
    longest = max_sequence_ids(model, hparams)
    batches = EvalBatches(reader, hparams.batch_size, columns=columns, limit=limit, max_length=longest, ladder_step=1.0)
    if batches.cut:
        log.warning(
            "%s: %d examples are longer than %s and are cut for evaluation",
            split, batches.cut, describe_max_ids(model, hparams),
        )  # fmt: skip
    language = data.problem.target_language
    if not decodes(model):
        return Evaluator(model, batches, None, metrics, language)
    translator = Translator(data.problem, model, hparams)
    decode = functools.partial(decode_split, translator, reader, columns, limit)
    warm_up_decode = functools.partial(_warm_up_decode, translator, reader, columns, limit)
    return Evaluator(model, batches, decode, metrics, language, warm_up_decode)


def decodes(model: SequenceModel) -> bool:
    """Returns whether a model answers inputs, so that its outputs can be held against references."""
    return model.spec.inputs is not None and model.spec.targets.kind in (FeatureKind.TOKENS, FeatureKind.LABEL)


def decode_split(
    translator: Translator, reader: SplitReader, columns, limit: int | None
) -> tuple[list[str], list[str]]:
    """Returns (hypotheses, references) of the first `limit` examples of a split, in its order."""
    hypotheses = decode_examples(translator, reader, columns, limit)
    return [found[0].text for found in hypotheses], references_of(translator, reader, columns, limit)


def _warm_up_decode(translator: Translator, reader: SplitReader, columns, limit: int | None) -> None:
    translator.warm_up(_inputs_of(reader, columns, limit))


def decode_examples(
    translator: Translator, reader: SplitReader, columns, limit: int | None = None, n_best: int = 1, **changes
) -> list[list[Hypothesis]]:
    """Returns the outputs for the first `limit` examples of a split, in its order; see `Translator.translate_ids`."""
    sources = texts_of(translator.problem, reader, columns, limit) if translator.problem.finishes else None
    rows = _inputs_of(reader, columns, limit)
    return translator.translate_ids(rows, n_best, sources=sources, **changes)


def _inputs_of(reader: SplitReader, columns, limit: int | None) -> list[Row]:
    """Returns the inputs of the first `limit` examples of a split: ids without end of sequence, or arrays."""
    stored = (columns or {}).get(INPUTS, INPUTS)
    if reader.features[stored].kind == FeatureKind.TOKENS:
        return [ids[:-1] for ids in _rows_of(reader, limit, stored)]
    return list(arrays_of(reader, limit, stored))


def references_of(translator: Translator, reader: SplitReader, columns, limit: int | None = None) -> list[str]:
    """Returns the targets of the first `limit` examples of a split as their raw text, finished as outputs are.

    Of classes, it returns their names.
    """
    problem = translator.problem
    stored = (columns or {}).get(TARGETS, TARGETS)
    if translator.model.spec.targets.kind == FeatureKind.LABEL:
        return [problem.decode_target(int(class_id)) for class_id in arrays_of(reader, limit, stored)]
    texts = reader.texts(stored, limit)
    if texts is None:
        if reader.split == TRAIN and not problem.encoders[TARGETS].lossless:
            log.warning("train: references are read back from ids, so words that the vocabulary lacks count as equal")
        texts = [problem.decode_target(ids) for ids in _rows_of(reader, limit, stored)]
    if not problem.finishes:
        return texts
    sources = texts_of(problem, reader, columns, limit)
    return [problem.finish(source, text).text for source, text in zip(sources, texts, strict=True)]


def texts_of(problem: Problem, reader: SplitReader, columns, limit: int | None, feature: str = INPUTS) -> list[str]:
    """Returns the inputs of the first `limit` examples of a split as text, or another feature of them."""
    stored = (columns or {}).get(feature, feature)
    texts = reader.texts(stored, limit)
    if texts is not None:
        return texts
    return [problem.encoders[feature].decode(ids) for ids in _rows_of(reader, limit, stored)]


def decode_and_score(translator: Translator, data: OpenData, split: str, n_best: int = 1, **changes) -> DecodedSplit:
    """Decodes all of a split and scores the best outputs by the problem's metrics of text.

    Where it has none, as problems of classes, by how many are right.

    Raises:
        UserError: no such split, or the problem has no inputs to decode.
    """
    check_split(data, split)
    if not decodes(translator.model):
        targets = translator.model.spec.targets.kind
        what = f"its targets are {targets}" if translator.has_inputs else "it has no inputs to answer"
        raise UserError(f"decoding the {split} split of {data.problem.name}: {what}; evaluate it with t2t-eval")
    translator.settings(n_best, **changes)
    reader, columns = data.readers[split], data.problem.columns
    outputs = decode_examples(translator, reader, columns, None, n_best, **changes)
    names = [name for name in data.problem.metrics if is_text_metric(name)] or ["accuracy_per_sequence"]
    hypotheses = [found[0].text for found in outputs]
    references = references_of(translator, reader, columns)
    scores = compute(names, hypotheses, references, data.problem.target_language).values()
    return DecodedSplit(outputs, list(scores))


def limit_of(data: OpenData, split: str, hparams: HParams, eval_steps: int) -> int | None:
    """Returns how many of a split's first examples make about so many batches; None for 0, which is all."""
    if not eval_steps:
        return None
    return _examples_in(data.readers[split], data.problem.columns, eval_steps * hparams.batch_size)


def _rows_of(reader: SplitReader, limit: int | None, stored: str) -> Iterator[list[int]]:
    """Yields the ids of examples, end of sequence included."""
    for row in arrays_of(reader, limit, stored):
        yield row.tolist()


def arrays_of(reader: SplitReader, limit: int | None, stored: str) -> Iterator[np.ndarray]:
    """Yields a feature of examples, whatever it is, each without padding."""
    indices = np.arange(min(len(reader), limit or len(reader)))
    if reader.is_sequence(stored):
        values, lengths = reader.read(indices, stored)
        yield from np.split(values, np.cumsum(lengths)[:-1])
    else:
        yield from reader.single(indices, stored)


def _examples_in(reader: SplitReader, columns, tokens: int) -> int:
    """Returns how many of a split's first examples have about so many tokens on their longer side; at least one."""
    stored = list((columns or dict.fromkeys(reader.features)).values()) if columns else list(reader.features)
    most = min(len(reader), tokens)
    lengths = [lengths_of(reader, name, np.arange(most)) for name in stored if reader.is_sequence(name)]
    if not lengths:
        return most
    return max(1, int(np.searchsorted(np.cumsum(np.maximum.reduce(lengths)), tokens, side="right")))
