"""How good a model is on a split: teacher-forced figures, labelled so, and the scores of real decodes.

Legend: B batch, T target length (1 for classes), V vocabulary.
"""

import logging
from collections.abc import Callable, Iterable, Sequence

import numpy as np
import tensorflow as tf
from keras import ops

from t2t.constants import TARGETS
from t2t.errors import memory_errors_as_machine_errors, shapes_of
from t2t.losses import class_cross_entropy, token_weights
from t2t.metrics import Score, compute, is_text_metric
from t2t.metrics.token import TokenSums, teacher_forced
from t2t.models.base import SequenceModel

log = logging.getLogger("t2t")

DecodeFn = Callable[[], tuple[Sequence[str], Sequence[str]]]
"""Returns (hypotheses, references) of the split, in its order."""


class Evaluator:
    """Evaluates the model it was given as it stands; changes no state of training.

    Args:
        model: the model.
        batches: iterable many times; yields (places in the split, features).
        decode: decodes the split for real; None where no text metric is wanted.
        metrics: names of text metrics and of teacher-forced figures.
        language: code of the language of what is decoded; empty where it is not known.
    """

    def __init__(
        self,
        model: SequenceModel,
        batches: Iterable[tuple[np.ndarray, dict[str, np.ndarray]]],
        decode: DecodeFn | None,
        metrics: Sequence[str],
        language: str = "",
    ):
        self._model, self._batches, self._decode, self._language = model, batches, decode, language
        self._text_metrics = [name for name in metrics if is_text_metric(name)]
        self._sums = None
        self._signatures_said = False

    def __call__(self) -> dict[str, float]:
        """Returns every figure by name; teacher-forced ones under `teacher_forced/`."""
        figures, scores = self.teacher_forced(), self.scores()
        self._say_signatures(scores.values())
        return figures | {name: score.value for name, score in scores.items()}

    def scores(self) -> dict[str, Score]:
        """Returns the scores of real decodes by the name of the metric; empty where none is wanted."""
        if not self._decode or not self._text_metrics:
            return {}
        return compute(self._text_metrics, *self._decode(), self._language)

    def _say_signatures(self, scores: Iterable[Score]) -> None:
        """Logs once how scores are computed: without that they cannot be compared with anyone's."""
        if not self._signatures_said:
            for score in scores:
                if score.signature:
                    log.info("%s of real decodes, signature %s", score.name, score.signature)
        self._signatures_said = True

    def teacher_forced(self) -> dict[str, float]:
        """Returns loss, perplexity and accuracies of the next token given the reference's tokens before it.

        A model that answers at once is given nothing of the reference but its length; a class counts as one token.
        """
        total = TokenSums()
        for _, batch in self._batches:
            features = {name: tf.constant(array) for name, array in batch.items()}
            if self._sums is None:
                signature = {name: tf.TensorSpec([None] * t.ndim, t.dtype) for name, t in features.items()}
                self._sums = tf.function(self._batch_sums, input_signature=[signature], autograph=False)
            with memory_errors_as_machine_errors(shapes_of(batch), "make batch_size or max_input_length smaller"):
                total += TokenSums(*(float(x) for x in self._sums(features)))
        return teacher_forced(total)

    def _batch_sums(self, features):
        targets_BT = features[TARGETS]
        logits_BTV = self._model(features)
        if targets_BT.ndim == 1:  # classes
            targets_BT, logits_BTV = targets_BT[:, None], logits_BTV[:, None]
            weights_BT = ops.ones_like(targets_BT, dtype="float32")
        else:
            weights_BT = token_weights(targets_BT)
        right_BT = ops.cast(ops.equal(ops.argmax(logits_BTV, axis=-1), ops.cast(targets_BT, "int64")), "float32")
        missed_B = ops.sum((1.0 - right_BT) * weights_BT, axis=1)
        has_data_B = ops.cast(ops.sum(weights_BT, axis=1) > 0, "float32")
        return (
            ops.sum(class_cross_entropy(logits_BTV, targets_BT, 0.0) * weights_BT),
            ops.sum(weights_BT),
            ops.sum(right_BT * weights_BT),
            ops.sum(has_data_B),
            ops.sum(ops.cast(missed_B == 0, "float32") * has_data_B),
        )
