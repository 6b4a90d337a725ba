"""Decodes one batch by mask-predict, in one compiled function.

Legend: B sentences of a batch, S source length, N = B * K rows, T width of the outputs, D width, M masked words of all
rows and one more, P positions of all rows, G blocks, R words of a block.
"""

import copy
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Self

import keras
import numpy as np
from keras import ops

from t2t.backends.base import inputs_signature
from t2t.backends.choice import backend
from t2t.layers.loops import split_blocks, stack
from t2t.layers.losses import BLOCK
from t2t.search.mask_predict import (
    PredictFn,
    likeliest_lengths,
    mask_predict,
    most_probable_words,
    rank_candidates,
)
from t2t.search.result import SearchResult
from t2t.search.settings import SearchSettings
from t2t.search.state import repeat_for_beams
from t2t.specs.constants import INPUTS

if TYPE_CHECKING:
    from t2t.models.transformer_cmlm import TransformerCmlm


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
