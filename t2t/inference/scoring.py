"""Log-probabilities of given outputs.

Legend: B rows of a batch, T target length.
"""

import functools
from collections.abc import Iterator, Sequence

import keras
import numpy as np

from t2t.hparams.groups import DecodeHParams
from t2t.inference.backend import ModelFunction
from t2t.inference.backend_choice import inference_backend
from t2t.inference.parallel import Jobs
from t2t.inference.rows import Batched, Row, batches_of, memory_errors, padded, row_sizes
from t2t.inference.signatures import inputs_signature
from t2t.models.base import SequenceModel
from t2t.specs.constants import INPUTS, TARGETS


class Scorer:
    """Scores targets given their sources, or by themselves if the model has no inputs."""

    def __init__(self, model: SequenceModel, jobs: Jobs):
        self._model, self._jobs = model, jobs

    @functools.cached_property
    def _log_probs(self) -> ModelFunction:
        signature = {TARGETS: keras.KerasTensor([None, None], "int32")}
        if self._model.spec.inputs is not None:
            signature[INPUTS] = inputs_signature(self._model)
        return inference_backend().model_function(
            self._model, lambda features: self._model.score_targets(features).log_probs, [signature]
        )

    def __call__(
        self, sources: Sequence[Row], targets: Sequence[Row], hparams: DecodeHParams
    ) -> Iterator[tuple[np.ndarray, list[np.ndarray]]]:
        """Yields indices of pairs and the log-probabilities of their tokens, see `Engine.score_tokens`."""
        has_inputs = self._model.spec.inputs is not None
        # Only lengths cut the batches: an array of inputs and the ids of a target cannot be padded together.
        rows = [range(max(map(len, pair))) for pair in zip(sources, targets, strict=True)]
        log_probs = self._log_probs

        def score(batch: Batched) -> Iterator[tuple[np.ndarray, list[np.ndarray]]]:
            indices, _ = batch
            features = {TARGETS: padded([targets[i] for i in indices])}
            if has_inputs:
                features[INPUTS] = padded([sources[i] for i in indices])
            with memory_errors(features[TARGETS], 1):
                log_probs_BT = keras.ops.convert_to_numpy(log_probs(features))
            yield indices, [row_T[: len(targets[i])] for i, row_T in zip(indices, log_probs_BT, strict=True)]

        yield from self._jobs.run(score, batches_of(rows, row_sizes(rows), hparams.decode_batch_size))
