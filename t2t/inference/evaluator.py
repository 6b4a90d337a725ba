"""Evaluates a model on a split: teacher-forced figures, and scores of decoded text.

Legend: B batch, T target length (1 for classes).
"""

import functools
import logging
from collections.abc import Callable, Iterable, Iterator, Sequence
from threading import Lock

import numpy as np
from keras import ops

from t2t.backends import backend
from t2t.backends.base import CompiledFunction, batch_signature
from t2t.data.reading.eval_batches import EvalBatches
from t2t.errors import memory_errors_as_machine_errors, shapes_of
from t2t.inference.parallel import Jobs, Sharing
from t2t.layers.losses import token_weights
from t2t.metrics import Score, compute, is_text_metric
from t2t.metrics.token import TokenSums, teacher_forced
from t2t.models.base import SequenceModel
from t2t.specs import TARGETS

log = logging.getLogger("t2t")

_IS_ROW = "is_row"
"""(B,) float32: 1 for examples, 0 for rows that only pad the batch."""

DecodeFn = Callable[[], tuple[Sequence[str], Sequence[str]]]
"""Returns (hypotheses, references) of the split, in its order."""


class Evaluator:
    """Evaluates a model with its current weights; changes no state of training.

    Args:
        model: of one problem.
        batches: of the split.
        decode: decodes the split; None if no text metric is requested.
        metrics: names of text metrics and of teacher-forced figures.
        language: code of the language of the decoded text; empty if it is not known.
        warm_up_decode: decodes the inputs that need the most memory; None if nothing is decoded.
        sharing: workers that evaluate together; `decode` divides its own work.
        read_sources: returns the inputs as text, for metrics that read them; None if they are not text.
    """

    def __init__(
        self,
        model: SequenceModel,
        batches: EvalBatches,
        decode: DecodeFn | None,
        metrics: Sequence[str],
        language: str = "",
        warm_up_decode: Callable[[], None] | None = None,
        sharing: Sharing | None = None,
        read_sources: Callable[[], Sequence[str]] | None = None,
    ):
        self._read_sources = read_sources
        self._model, self._batches, self._language = model, batches, language
        self._decode, self._warm_up_decode = decode, warm_up_decode
        self._metrics = metrics
        self._text_metrics = [name for name in metrics if is_text_metric(name)]
        self._jobs = Jobs(model, sharing)
        self._sums: CompiledFunction | None = None
        self.decoded: tuple[Sequence[str], Sequence[str]] | None = None
        """Hypotheses and references of the last evaluation; None where nothing was decoded."""
        self._tracing = Lock()
        self._signatures_said = False

    def __call__(self) -> dict[str, float]:
        """Returns every figure by name; teacher-forced ones under `teacher_forced/`."""
        figures, scores = self.teacher_forced(), self.scores()
        self._say_signatures(scores.values())
        return figures | {name: score.value for name, score in scores.items()}

    def scores(self) -> dict[str, Score]:
        """Returns the scores of decoded text by the name of the metric; empty if none is requested."""
        if not self._decode or not self._text_metrics:
            return {}
        self.decoded = self._decode()
        return compute(self._text_metrics, *self.decoded, self._language, self._read_sources)

    @functools.cached_property
    def sources(self) -> Sequence[str] | None:
        """The inputs as text; None if they are not text."""
        return self._read_sources() if self._read_sources else None

    def _say_signatures(self, scores: Iterable[Score]) -> None:
        """Logs once how scores are computed, since only scores with equal signatures are comparable."""
        if not self._signatures_said:
            for score in scores:
                if score.signature:
                    log.info("%s of real decodes, signature %s", score.name, score.signature)
        self._signatures_said = True

    def teacher_forced(self) -> dict[str, float]:
        """Returns loss, perplexity and accuracies of the next token given the reference's tokens before it.

        A model that is not autoregressive gets only the length of the reference; a class counts as one token.
        """

        def work(number: int) -> Iterator[tuple[int, TokenSums]]:
            yield number, self._sums_of(self._batches[number][1])

        found = dict(self._jobs.run(work, range(len(self._batches))))
        # In the order of the batches, as sums of floats depend on the order.
        return teacher_forced(sum((found[number] for number in sorted(found)), TokenSums()), self._metrics)

    def warm_up(self) -> None:
        """Evaluates and decodes the batches that need the most memory, so that a lack of it shows at once."""
        for batch in self._batches.extremes():
            self._sums_of(batch)
        if self._warm_up_decode and self._text_metrics:
            self._warm_up_decode()

    def _sums_of(self, batch: dict[str, np.ndarray]) -> TokenSums:
        with memory_errors_as_machine_errors(shapes_of(batch), "make batch_size or max_input_length smaller"):
            given = {**batch, _IS_ROW: np.ones(len(batch[TARGETS]), np.float32)}
            with self._tracing:
                if self._sums is None:
                    signature = [batch_signature(self._model, given)]
                    self._sums = backend().compile(self._batch_sums, signature, self._model)
            return TokenSums(*(float(x) for x in self._sums(given)))

    def _batch_sums(self, given):
        features = {name: tensor for name, tensor in given.items() if name != _IS_ROW}
        targets_BT = features[TARGETS]
        log_probs_BT, correct_BT = self._model.score_targets(features)
        if targets_BT.ndim == 1:  # classes
            log_probs_BT, correct_BT = log_probs_BT[:, None], correct_BT[:, None]
            weights_BT = given[_IS_ROW][:, None]
        else:
            weights_BT = token_weights(targets_BT)
        right_BT = ops.cast(correct_BT, "float32")
        missed_B = ops.sum((1.0 - right_BT) * weights_BT, axis=1)
        has_data_B = ops.cast(ops.sum(weights_BT, axis=1) > 0, "float32")
        return (
            -ops.sum(log_probs_BT * weights_BT),
            ops.sum(weights_BT),
            ops.sum(right_BT * weights_BT),
            ops.sum(has_data_B),
            ops.sum(ops.cast(missed_B == 0, "float32") * has_data_B),
        )
