"""Self-attention in a sequence of inputs, which are read once, followed by targets, which are decoded step by step.

Legend: D width, S input length, H heads, J heads of keys and values, C channels of one head. In a decoding step: N
rows, G groups of K beams each (N = G * K), L positions written so far.
"""

from typing import Any

from keras import ops

from t2t.layers.attention import MultiHeadAttention
from t2t.layers.beams import repeat_sentences
from t2t.layers.cache import KeysValues, StepCache
from t2t.layers.masks import CAUSAL


class PrependedAttention(MultiHeadAttention):
    """Self-attention that in decoding steps also attends to the inputs' keys and values.

    On whole sequences it is a plain `MultiHeadAttention`, with the mask given by `span` and `keep`. Keys and values are
    always cached, also if inputs attend to each other in both directions.
    """

    def __init__(self, *sizes: Any, **settings: Any):
        super().__init__(*sizes, **settings)
        self.is_cached = True

    def _step(self, x_ND, memory: KeysValues | None, keep, cache: StepCache):
        """Returns (N, D); `memory` are keys and values of the inputs, (B, J, S, C), and `keep` is (B, 1, 1, S) bool."""
        assert memory is not None, "inputs are read before the first step"
        query, own = self._project_self(cache.by_group(x_ND), None, cache.weights[self.path])
        written, seen_G1KL = cache.extend_keys_values(self.path, own), cache.keep(CAUSAL)
        groups, _, beams, _ = ops.shape(seen_G1KL)
        memory, keep = repeat_sentences((memory, keep), groups)
        both = KeysValues(*(ops.concatenate(pair, axis=2) for pair in zip(memory, written, strict=True)))
        read_G1KS = ops.broadcast_to(keep, (groups, 1, beams, ops.shape(keep)[3]))
        found = self._output(self._weighted(query, both, ops.concatenate([read_G1KS, seen_G1KL], axis=3), None, None))
        return ops.reshape(found, (-1, found.shape[-1]))
