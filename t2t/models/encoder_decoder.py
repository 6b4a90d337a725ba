"""Models with the same code for training, on whole sequences, and for decoding, one position at a time.

Legend: B batch, S source length, T target length, D width, N rows decoded together.
"""

import functools
from typing import Any

from keras import ops

from t2t.layers.attention import MultiHeadAttention
from t2t.layers.cache import Cache, CachingLayer, FusedWeights, StepCache, caching_layers, empty_cache, reorder_entries
from t2t.layers.masks import padding_keep
from t2t.layers.mode import Costed, Costs, in_mode, with_costs
from t2t.layers.tensors import Features, Size, Tensor
from t2t.models.base import DecodeContext, SequenceModel
from t2t.specs.constants import PAD_ID, POSITIONS, TARGETS


class EncoderDecoder(SequenceModel):
    """A model of two functions: `encode` reads the source, `decode` returns a hidden state after each target.

    Training calls `decode` on all targets at once; decoding calls it on the last one, with a cache. Each layer manages
    its own entry of the cache, see `t2t.layers.cache`.
    """

    def encode(self, features: Features, seed=None) -> Any:
        """Returns the encoded source: any structure with leading axis B; None without inputs."""
        raise self._unwritten("encode")

    def decode(self, ids, encoded: Any, keep_BT=None, cache: StepCache | None = None, seed=None) -> Tensor:
        """Returns the hidden states from which the next targets are predicted, (B, T, D), or with a cache (N, D).

        Args:
            ids: (B, T) int32, the target before each position; with a cache (N,), the one before its position.
            encoded: what `encode` returned; with a cache, row n reads sentence n // (N / B).
            keep_BT: bool, True at positions that hold data; None = all.
            cache: in a decoding step; None for whole sequences.
            seed: of dropout.
        """
        raise self._unwritten("decode")

    def body(self, features: Features, seed=None) -> Tensor | Costed:
        """Returns the decoder's output, (B, T, D), as `Costed` if layers add costs to the loss; see the base class."""
        targets_BT = features[TARGETS]
        costs = Costs(features)
        with in_mode(costs=costs):
            encoded = self.encode(features, seed=seed)
            shifted_BT = ops.pad(targets_BT[:, :-1], ((0, 0), (1, 0)))
            packing: dict[str, Any] = {}
            if POSITIONS[TARGETS] in features:
                packing = {"position_BT": features[POSITIONS[TARGETS]]}
                shifted_BT = ops.where(ops.equal(packing["position_BT"], 0), PAD_ID, shifted_BT)
            hidden_BTD = self.decode(shifted_BT, encoded, keep_BT=padding_keep(targets_BT), seed=seed, **packing)
        return with_costs(hidden_BTD, costs)

    @functools.cached_property
    def _caching_layers(self) -> list[CachingLayer]:
        return caching_layers(self)

    def init_cache(self, encoded: Any, rows: Size, length: Size | None, beams: int = 1) -> Cache:
        """Returns empty cache entries for all layers that read earlier positions; see the base class."""
        return empty_cache(self._caching_layers, rows, length, beams)

    def decode_weights(self) -> dict[str, FusedWeights]:
        """Returns the fused query, key and value weights of each cached self-attention, by its path."""
        attentions = (layer for layer in self._caching_layers if isinstance(layer, MultiHeadAttention))
        return {layer.path: layer.fused_weights() for layer in attentions if layer.is_cached}

    def step(self, ids_N, position, cache: Cache, prepared: DecodeContext) -> tuple[Tensor, Cache]:
        """Returns (N, D) and the cache with this position; see the base class."""
        step_cache = StepCache(cache, position, prepared.weights)
        return self.decode(ids_N, prepared.encoded, cache=step_cache), step_cache.result()

    def reorder_cache(self, cache: Cache, beams: Tensor) -> Cache:
        """Returns the cache with its beams reordered; see the base class."""
        return reorder_entries(cache, beams)
