"""Compares what two engines make of a split: scores, outputs and log-probabilities."""

import dataclasses

import numpy as np

from t2t.inference.translator import Translator
from t2t.metrics import Score
from t2t.runs.data import OpenData, check_split
from t2t.runs.split_decoding import first_examples, score_outputs
from t2t.specs.constants import EOS_ID


@dataclasses.dataclass(frozen=True)
class EngineComparison:
    """How the outputs of an engine and of TensorFlow compare."""

    scores: dict[str, list[Score]]
    """By the name of the engine."""
    identical: int
    """Inputs whose best outputs are the same, id by id."""
    differences: np.ndarray
    """Of the log-probabilities of TensorFlow's output for each input, (inputs,) float64, in nats per token."""

    def __str__(self) -> str:
        """Returns a line for each score and each kind of difference."""
        inputs, differences = len(self.differences), self.differences
        scores = [f"{name}: {score}" for name, found in self.scores.items() for score in found]
        outputs = f"the same output: {self.identical:,} of {inputs:,} inputs, {self.identical / inputs:.1%}"
        figures = f"difference of log-probabilities, nats per token: mean {differences.mean():.2g}, largest "
        return "\n".join([*scores, outputs, f"{figures}{differences.max():.2g}"])


def compare_engines(translator: Translator, data: OpenData, split: str, eval_steps: int = 0) -> EngineComparison:
    """Compares the engine of a translator with TensorFlow.

    Args:
        translator: of the run, autoregressive and with inputs.
        data: of its problem.
        split: to decode.
        eval_steps: batches of the split, its first ones; 0 for all.
    """
    check_split(data, split)
    full = Translator(translator.problem, translator.model, translator.hparams, engine=translator.tensorflow)
    examples = first_examples(data, split, translator.hparams, eval_steps)
    found = {one.engine.name: examples.decode(one) for one in (translator, full)}
    scores = {name: score_outputs(data.problem, outputs, examples) for name, outputs in found.items()}
    ours, theirs = ([best.ids for best, *_ in outputs] for outputs in found.values())
    identical = sum(a == b for a, b in zip(ours, theirs, strict=True))
    # With end of sequence, which scoring adds; an output that is as long as may be has none.
    targets = [ids[: full.longest_input] if ids[-1] != EOS_ID else ids[:-1] for ids in theirs]
    log_probs = [np.array(one.score_ids(examples.inputs(), targets)) for one in (translator, full)]
    return EngineComparison(scores, identical, np.abs(log_probs[0] - log_probs[1]) / [len(ids) + 1 for ids in targets])
