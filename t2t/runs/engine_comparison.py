"""Compares two engines on a split: scores, outputs and log-probabilities."""

import dataclasses
from typing import Any

import numpy as np

from t2t.errors import UserError
from t2t.inference.fallback import FallbackEngine
from t2t.inference.split_examples import SplitExamples
from t2t.inference.translator import Translator
from t2t.metrics import Score
from t2t.runs.split_decoding import score_outputs
from t2t.specs.constants import EOS_ID


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
        raise UserError(f"--compare_engine: CTranslate2 leaves this search to TensorFlow: {why}; ask for another")
    full = Translator(translator.problem, translator.model, translator.hparams, engine=translator.model_engine)
    both = (translator, full)
    outputs = [examples.decode(one) for one in both]
    scores = [score_outputs(translator.problem, found, examples) for found in outputs]
    identical = sum(ours.ids == theirs.ids for (ours, *_), (theirs, *_) in zip(*outputs, strict=True))
    # Without the end of sequence, which scoring adds; an output of maximum length has none.
    targets = [_without_end(best.ids)[: full.longest_target] for best, *_ in outputs[1]]
    log_probs = [np.array(one.score_ids(rows, targets)) for one in both]
    differences = np.abs(log_probs[0] - log_probs[1]) / [len(ids) + 1 for ids in targets]
    by_name = {one.engine.name: found for one, found in zip(both, scores, strict=True)}
    return EngineComparison(by_name, identical, differences)


def _without_end(ids: tuple[int, ...]) -> tuple[int, ...]:
    return ids[:-1] if ids[-1:] == (EOS_ID,) else ids
