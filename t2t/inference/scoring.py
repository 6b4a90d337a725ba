"""How probable a model finds given outputs.

Legend: B rows of a batch, T target length.
"""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from t2t.errors import UserError
from t2t.hparams.groups import DecodeHParams
from t2t.inference.rows import (
    NOT_FINITE,
    Row,
    batches_of,
    cut_rows,
    describe_max_ids,
    max_sequence_ids,
    memory_errors,
    padded,
    weights_of,
)
from t2t.models.base import SequenceModel
from t2t.specs.constants import EOS_ID, INPUTS, TARGETS


class Scorer:
    """Scores targets given their sources, or by themselves where the model has no inputs."""

    def __init__(self, model: SequenceModel):
        self._model = model
        self._log_probs = tf.function(
            lambda features: model.score_targets(features).log_probs, autograph=False, reduce_retracing=True
        )

    def __call__(
        self,
        sources: Sequence[Sequence[int]],
        targets: Sequence[Sequence[int]],
        hparams: DecodeHParams,
        on_done: Callable[[int], Any] | None = None,
    ) -> list[float]:
        """Returns ln p(target | source), end of sequence included, of each pair; see `Translator.score_ids`."""
        if not targets:
            return []
        check_lengths(self._model, targets, hparams)
        targets = [[*ids, EOS_ID] for ids in targets]
        has_inputs = self._model.spec.inputs is not None
        inputs: Sequence[Row] = cut_rows(self._model, sources, hparams) if has_inputs else targets
        scores = np.zeros(len(targets), np.float64)
        rows = [max(source, target, key=len) for source, target in zip(inputs, targets, strict=True)]
        for indices, _ in batches_of(rows, weights_of(rows), hparams.decode_batch_size):
            batch = {TARGETS: padded([targets[i] for i in indices])}
            if has_inputs:
                batch[INPUTS] = padded([inputs[i] for i in indices])
            with memory_errors(batch[TARGETS], 1):
                log_probs_BT = self._log_probs({name: tf.constant(ids) for name, ids in batch.items()}).numpy()
            scores[indices] = log_probs_BT.sum(axis=1, dtype=np.float64)
            if on_done is not None:
                on_done(len(indices))
        if not np.isfinite(scores).all():
            raise UserError(NOT_FINITE)
        return (scores + 0.0).tolist()  # no -0.0


def check_lengths(model: SequenceModel, targets: Sequence[Sequence[int]], hparams: DecodeHParams) -> None:
    """Raises UserError where a target (without end of sequence) is longer than the model takes."""
    longest = max_sequence_ids(model, hparams)
    for number, ids in enumerate(targets, start=1):
        if len(ids) + 1 > longest:
            raise UserError(
                f"target {number} of {len(targets)}: it has {len(ids) + 1} ids with end of sequence, more than "
                f"{describe_max_ids(model, hparams)}; a target that is cut has another probability, so give a shorter "
                f"one"
            )
