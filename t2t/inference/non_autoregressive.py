"""Decodes a batch with models that are not autoregressive: in one forward pass, or by mask-predict.

Legend: B sentences of a batch, S source length, K hypotheses of each, N = B * K rows, P positions, T width of the
outputs, D width, V vocabulary, C classes, M masked words of all rows and one more, G blocks, R words of a block.
"""

import copy
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Self

import keras
import numpy as np
from keras import ops

from t2t.backends import backend
from t2t.backends.base import inputs_signature
from t2t.layers.beams import repeat_for_beams
from t2t.layers.loops import split_blocks, stack
from t2t.layers.losses import BLOCK
from t2t.models.base import SequenceModel
from t2t.search.mask_predict import PredictFn, likeliest_lengths, mask_predict, most_probable_words, rank_candidates
from t2t.search.result import SearchResult
from t2t.search.settings import SearchSettings
from t2t.specs import EOS_ID, INPUTS, PAD_ID
from t2t.specs.features import FeatureKind

if TYPE_CHECKING:
    from t2t.models.transformer_cmlm import TransformerCmlm


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


class BatchMaskPredict:
    """Decodes batches of sentences; may be called from several threads at a time.

    Args:
        model: its current weights are read at each call.
        settings: how to search.
        extra_length: by how many ids an output may be longer than its input.
    """

    def __init__(self, model: "TransformerCmlm", settings: SearchSettings, extra_length: int):
        self._model, self._settings, self._extra_length = model, settings, extra_length
        signature = [inputs_signature(model), keras.KerasTensor([], "int32")]
        self._compiled = backend().compile(self._search, signature, model)

    def with_settings(self, settings: SearchSettings, extra_length: int) -> Self:
        """Returns a search with other settings of the same structure, without compiling anything."""
        other = copy.copy(self)
        other._settings, other._extra_length = settings, extra_length
        return other

    def __call__(self, inputs: np.ndarray) -> SearchResult:
        """Returns the hypotheses of a batch of inputs (B, S) int32, numpy arrays."""
        return SearchResult(*map(ops.convert_to_numpy, self._compiled(inputs, self._extra_length)))

    def search_batch(self, inputs: Any) -> SearchResult:
        """Returns the same hypotheses as tensors, to be part of another graph."""
        return self._search(inputs, self._extra_length)

    def _search(self, inputs, extra_length) -> SearchResult:
        model, count = self._model, self._settings.length_candidates
        encoded = model.encode({INPUTS: inputs})
        keep_BS = model.source_embedding.keep(inputs)
        limits_B = ops.maximum(ops.sum(ops.cast(keep_BS, "int32"), axis=1) + extra_length, 2)  # a word and its end
        limits_B = ops.minimum(limits_B, model.longest_sequence)
        candidates = likeliest_lengths(model.length_log_probs(encoded), count, limits_B)
        words_N = ops.reshape(candidates.words, (-1,))
        length = inputs.shape[1]
        if length is None or not isinstance(extra_length, int):
            width, widest = ops.max(words_N) + 1, None
        else:  # a program of fixed sizes
            width = widest = min(max(length + extra_length, 2), model.longest_sequence or length + extra_length)
        predict = self._predict_fn(repeat_for_beams(encoded, count), words_N, width, every=widest is not None)
        return rank_candidates(*mask_predict(predict, words_N, self._settings.iterations, width), candidates)

    def _predict_fn(self, encoded: Any, words_N, width: Any, every: bool) -> PredictFn:
        """Returns the function that predicts masked words; with `every`, for all positions, so that sizes are fixed."""
        model, output_weights = self._model, self._model.top.decode_weights()
        keep_NT = ops.arange(width, dtype="int32") <= words_N[:, None]

        def words_at(hidden_MD):
            return _by_blocks(hidden_MD, lambda hidden_RD: most_probable_words(model.top(hidden_RD, output_weights)))

        def predict(ids_NT, is_masked_NT):
            hidden_NTD = model.decode(ids_NT, encoded, keep_NT)
            masked_P = ops.reshape(is_masked_NT, (-1,))
            # The output layer is expensive and few words may be masked, so it runs on these alone. Position 0 is added,
            # so that there is at least one.
            hidden_PD = ops.reshape(hidden_NTD, (-1, hidden_NTD.shape[-1]))
            if every:
                return tuple(ops.reshape(x_P, ops.shape(ids_NT)) for x_P in words_at(hidden_PD))
            places_M = ops.concatenate([ops.zeros((1,), "int32"), ops.cast(ops.nonzero(masked_P)[0], "int32")], axis=0)
            found = words_at(ops.take(hidden_PD, places_M, axis=0))
            number_NT = ops.reshape(ops.cumsum(ops.cast(masked_P, "int32")), ops.shape(ids_NT))
            return tuple(ops.take(x_M, number_NT, axis=0) for x_M in found)

        return predict


def _by_blocks(hidden_MD, words_of: Callable) -> tuple[Any, Any]:
    """Returns words and their log-probabilities, (M,) int32 and float32; keeps the logits of one block at a time."""
    hidden_GRD = split_blocks(hidden_MD, BLOCK)
    blocks, rows = ops.shape(hidden_GRD)[:2]
    found = stack(
        blocks, lambda g: words_of(ops.take(hidden_GRD, g, axis=0)), (((rows,), "int32"), ((rows,), "float32"))
    )
    words_M, log_probs_M = (ops.reshape(x_GR, (-1,))[: ops.shape(hidden_MD)[0]] for x_GR in found)
    return words_M, log_probs_M
