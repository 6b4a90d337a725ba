"""Convolutional sequence to sequence learning, in the order of section 3 of Gehring et al. (2017, arXiv:1705.03122).

Legend: B batch, S source length, T target length, D width of embeddings, C channels of a layer, V vocabulary, N rows
decoded together, Q rows of each sentence (N = B * Q).
"""

from typing import Any

import keras
from keras import ops

from t2t.hparams.conv_s2s import ConvS2sHParams
from t2t.layers.dropout import Dropout
from t2t.layers.gated_convolution import ROOT_HALF, GatedLayer, linear
from t2t.layers.gradients import with_scaled_gradient
from t2t.layers.multi_step_attention import MultiStepAttention
from t2t.layers.positions import LearnedPositions
from t2t.layers.recurrent_attention import Memory
from t2t.models.base import READ_AS_VECTORS, DecodeContext, SequenceModel
from t2t.registry import register_model
from t2t.specs.constants import INPUTS, TARGETS
from t2t.specs.features import ProblemSpec

EMBEDDING_DEVIATION = 0.1
"""Of every vector of a word or a position when training begins (section 3.5)."""


@register_model
class ConvS2s(SequenceModel):
    """Convolutional Sequence to Sequence Learning: gated convolutions, and attention in every layer of the decoder."""

    hparams_class = ConvS2sHParams
    accepts_inputs = READ_AS_VECTORS

    def __init__(self, hparams: ConvS2sHParams, spec: ProblemSpec, dtype: str = "float32", **kwargs):
        super().__init__(hparams, spec, dtype, **kwargs)
        policy, width, layers = self.dtype_policy, hparams.hidden_size, hparams.layers()
        # Positions (section 3.1)
        self.source_positions, self.target_positions = (
            LearnedPositions(hparams.max_length, width, EMBEDDING_DEVIATION, dtype=policy, name=f"{side}_positions")
            for side in ("source", "target")
        )
        # Stacks (sections 3.2 and 3.3)
        self.encoder = Encoder(width, layers, hparams.dropout, dtype=policy, name="encoder")
        self.decoder = Decoder(width, layers, hparams.dropout, dtype=policy, name="decoder")
        self.source_dropout = Dropout(hparams.dropout, dtype=policy, name="source_dropout")
        self.target_dropout = Dropout(hparams.dropout, dtype=policy, name="target_dropout")
        self.build()

    def build(self, input_shape=None):
        """Creates every weight."""
        self.build_ends()
        hidden = (None, None, self.hparams.hidden_size)
        sides = (self.source_positions, self.target_positions, self.source_dropout, self.target_dropout)
        for layer in (*sides, self.encoder, self.decoder):
            layer.build(hidden)

    @property
    def longest_sequence(self) -> int:
        """The length of the tables of positions."""
        return self.hparams.max_length

    def body(self, features: dict[str, Any], seed=None):
        """Returns the decoder's output, (B, T, D); see the base class."""
        memory = self._encode(features[INPUTS], seed)
        shifted_BT = ops.pad(features[TARGETS][:, :-1], ((0, 0), (1, 0)))
        return self.decoder(self.target_dropout(self._embed_targets(shifted_BT), seed=seed), memory, seed=seed)

    def _encode(self, inputs, seed=None) -> Memory:
        keep_BS = self.source_embedding.keep(inputs)
        e_BSD = self.source_positions(self.source_embedding(inputs, seed=seed) * EMBEDDING_DEVIATION)
        e_BSD = self.source_dropout(e_BSD, seed=seed)
        # Each of the decoder's attentions sends a gradient to the encoder (section 3.4).
        z_BSD = with_scaled_gradient(self.encoder(e_BSD, keep_BS, seed=seed), 1.0 / len(self.decoder.layers_))
        return Memory(z_BSD, (z_BSD + e_BSD) * ROOT_HALF, keep_BS)

    def _embed_targets(self, ids_BT, start=0):
        return self.target_positions(self.target_embedding.before(ids_BT) * EMBEDDING_DEVIATION, start=start)

    def encode(self, features: dict[str, Any]) -> Memory:
        """Returns what there is to attend to: keys (B, S, D), values (B, S, D) and what of them holds data (B, S)."""
        return self._encode(features[INPUTS])

    def init_cache(self, encoded: Memory, rows: Any, length: Any, beams: int = 1) -> tuple:
        """Returns the positions that the decoder's windows reach before the first, zeros; see the base class."""
        return self.decoder.empty(rows)

    def step(self, ids_N, position, cache: tuple, prepared: DecodeContext):
        """Returns (N, D) and what the windows of the next position reach; see the base class."""
        return self.decoder.step(self._embed_targets(ids_N[:, None], position), cache, prepared.encoded)


class Encoder(keras.layers.Layer):
    """Gated convolutions around each position, between maps from and to the width of embeddings.

    Args:
        width: D.
        layers: (channels, positions of a window) of each.
        dropout: rate on what convolutions read.
    """

    def __init__(self, width: int, layers: list[tuple[int, int]], dropout: float, **kwargs):
        super().__init__(**kwargs)
        self.width = width
        self.narrow, self.layers_, self.wide = _stack(self, width, layers, dropout, causal=False)

    def build(self, input_shape):
        """Builds every layer for (B, S, D)."""
        _build(self, input_shape)

    def call(self, x_BSD, keep_BS, seed=None):
        """Returns z (B, S, D); positions where `keep_BS` (B, S) is False are read as zeros."""
        x_BSC = self.narrow(x_BSD)
        for layer in self.layers_:
            x_BSC = layer(x_BSC, keep_BS, seed=seed)
        return self.wide(x_BSC)


class Decoder(keras.layers.Layer):
    """Gated convolutions that end at each position, every layer with attention to the source of its own.

    Args:
        width: D.
        layers: (channels, positions of a window) of each.
        dropout: rate on what convolutions read and on the output.
    """

    def __init__(self, width: int, layers: list[tuple[int, int]], dropout: float, **kwargs):
        super().__init__(**kwargs)
        self.width = width
        self.narrow, self.layers_, self.wide = _stack(self, width, layers, dropout, causal=True)
        self.attentions = [
            MultiStepAttention(channels, width, dtype=self.dtype_policy, name=f"attention_{i}")
            for i, (channels, _) in enumerate(layers)
        ]
        self.dropout = Dropout(dropout, dtype=self.dtype_policy, name="dropout")

    def build(self, input_shape):
        """Builds every layer for (B, T, D)."""
        _build(self, input_shape)
        for attention in self.attentions:
            attention.build(input_shape)
        self.dropout.build()

    def call(self, g_BTD, memory: Memory, seed=None):
        """Returns (B, T, D), each position of embeddings up to it and of all the source."""
        x_BTC = self.narrow(g_BTD)
        for layer, attention in zip(self.layers_, self.attentions, strict=True):
            x_BTC = layer(x_BTC, seed=seed, between=lambda h, attend=attention: attend(h, g_BTD, memory))
        return self.dropout(self.wide(x_BTC), seed=seed)

    def empty(self, rows) -> tuple:
        """Returns of every layer what its windows reach before the first position."""
        return tuple(layer.convolution.empty(rows) for layer in self.layers_)

    def step(self, g_N1D, pasts: tuple, memory: Memory):
        """Returns (N, D) of one position, and what the windows of the next reach."""
        sentences = ops.shape(memory.keys)[0]

        def by_sentence(x_N1C):
            return ops.reshape(x_N1C, (sentences, -1, x_N1C.shape[-1]))

        g_BQD, x_N1C, after = by_sentence(g_N1D), self.narrow(g_N1D), []
        for layer, attention, past in zip(self.layers_, self.attentions, pasts, strict=True):

            def attend(h_N1C, attention=attention):
                return ops.reshape(attention(by_sentence(h_N1C), g_BQD, memory), ops.shape(h_N1C))

            x_N1C, cached = layer.step(x_N1C, past, attend)
            after.append(cached)
        return self.wide(x_N1C)[:, 0], tuple(after)


def _stack(owner: Encoder | Decoder, width: int, layers: list[tuple[int, int]], dropout: float, causal: bool):
    """Returns the map to the first layer's channels, the layers, and the map from the last one's."""
    policy = owner.dtype_policy
    inputs = [layers[0][0], *(channels for channels, _ in layers[:-1])]
    stack = [
        GatedLayer(channels, before, kernel_size, causal, dropout, dtype=policy, name=f"layer_{i}")
        for i, (before, (channels, kernel_size)) in enumerate(zip(inputs, layers, strict=True))
    ]
    narrow = linear(inputs[0], width, dropout, dtype=policy, name="narrow")
    return narrow, stack, linear(width, layers[-1][0], dtype=policy, name="wide")


def _build(stack: Encoder | Decoder, input_shape) -> None:
    stack.narrow.build(input_shape)
    for layer in stack.layers_:
        layer.build(input_shape)
    stack.wide.build((*input_shape[:-1], stack.layers_[-1].channels))
