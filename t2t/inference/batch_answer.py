"""Decoding with models that predict the whole output in one forward pass, so that there is no search.

Legend: B rows of a batch, P positions, V vocabulary, C classes, K hypotheses of each.
"""

import numpy as np
from keras import ops

from t2t.backends.base import inputs_signature
from t2t.backends.choice import backend
from t2t.models.base import SequenceModel
from t2t.search.result import SearchResult
from t2t.specs.constants import EOS_ID, INPUTS, PAD_ID
from t2t.specs.features import FeatureKind


class BatchAnswer:
    """Predicts the outputs of batches of inputs; may be called from several threads at a time.

    Args:
        model: with its weights, read at each call; `autoregressive` is False, and it has inputs.
        count: K, at most `max_answers(model)`.
    """

    def __init__(self, model: SequenceModel, count: int = 1):
        self._model, self._count = model, count
        self._compiled = backend().compile(self.search_batch, [inputs_signature(model)], model)

    def __call__(self, inputs: np.ndarray) -> SearchResult:
        """Returns the hypotheses of a batch, numpy arrays; a score is the log-probability.

        For tokens there is one hypothesis: the most probable id but padding at each position, up to the first end of
        sequence or the length of the input. For classes there are the K most probable.

        Args:
            inputs: (B, S) int32 for tokens; a batch as `FeatureKind` describes for other features.
        """
        return SearchResult(*map(ops.convert_to_numpy, self._compiled(inputs)))

    def search_batch(self, inputs) -> SearchResult:
        """Returns the same hypotheses as tensors, to be part of another graph."""
        logits = self._model({INPUTS: inputs})
        if self._model.spec.targets.kind == FeatureKind.LABEL:
            return classes(logits, self._count)
        lengths_B = None
        source = self._model.spec.inputs
        if source is not None and source.kind == FeatureKind.TOKENS:
            lengths_B = ops.sum(ops.cast(ops.not_equal(inputs, PAD_ID), "int32"), axis=1)
        return tokens(logits, lengths_B)


def classes(logits_BC, count: int) -> SearchResult:
    """Returns the `count` most probable classes of each row, each as one id; ties: lower id."""
    log_probs_BK, ids_BK = ops.top_k(ops.log_softmax(logits_BC, axis=-1), count)
    return SearchResult(ids_BK[..., None], log_probs_BK, log_probs_BK, ops.ones_like(ids_BK))


def tokens(logits_BPV, lengths_B=None) -> SearchResult:
    """Returns the most probable ids of each row, padding excepted, up to the first end of sequence.

    Args:
        logits_BPV: float32.
        lengths_B: (B,) int32, number of positions of each row; None for P.
    """
    log_probs_BPV = ops.log_softmax(logits_BPV, axis=-1)
    is_padding_V = ops.equal(ops.arange(logits_BPV.shape[-1]), PAD_ID)
    allowed_BPV = ops.where(is_padding_V, -float("inf"), log_probs_BPV)
    ids_BP = ops.cast(ops.argmax(allowed_BPV, axis=-1), "int32")
    best_BP = ops.max(allowed_BPV, axis=-1)
    ends_BP = ops.cast(ops.equal(ids_BP, EOS_ID), "int32")
    keep_BP = ops.equal(ops.cumsum(ends_BP, axis=1) - ends_BP, 0)  # no end of sequence before it
    if lengths_B is not None:
        keep_BP = ops.logical_and(keep_BP, ops.arange(ops.shape(ids_BP)[1])[None, :] < lengths_B[:, None])
    ids_BP = ops.where(keep_BP, ids_BP, PAD_ID)
    log_probs_B1 = ops.sum(ops.where(keep_BP, best_BP, 0.0), axis=1, keepdims=True)
    lengths_B1 = ops.sum(ops.cast(keep_BP, "int32"), axis=1, keepdims=True)
    return SearchResult(ids_BP[:, None], log_probs_B1, log_probs_B1, lengths_B1)
