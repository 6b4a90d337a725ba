"""Convolutional sequence to sequence learning, in the order of section 3 of Gehring et al. (2017, arXiv:1705.03122).

Legend: B batch, S source length, T target length, D width of embeddings, C channels of a layer, N rows decoded
together.
"""

from typing import Any

import keras

from t2t.hparams.conv_s2s import ConvS2sHParams
from t2t.layers.cache import StepCache
from t2t.layers.dropout import Dropout
from t2t.layers.gated_convolution import ROOT_HALF, GatedLayer, linear, with_scaled_gradient
from t2t.layers.multi_step_attention import MultiStepAttention
from t2t.layers.positions import LearnedPositions
from t2t.layers.recurrent_attention import Memory
from t2t.layers.residual import build_all
from t2t.models.base import READ_AS_VECTORS
from t2t.models.encoder_decoder import EncoderDecoder
from t2t.registry import register_model
from t2t.specs.constants import INPUTS
from t2t.specs.features import ProblemSpec

EMBEDDING_DEVIATION = 0.1
"""Initial standard deviation of the vectors of words and positions (section 3.5)."""


@register_model
class ConvS2s(EncoderDecoder):
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
        self.encoder = Encoder(width, layers, hparams.dropout, causal=False, dtype=policy, name="encoder")
        self.decoder = Decoder(width, layers, hparams.dropout, dtype=policy, name="decoder")
        self.source_dropout = Dropout(hparams.dropout, dtype=policy, name="source_dropout")
        self.target_dropout = Dropout(hparams.dropout, dtype=policy, name="target_dropout")
        self.build()

    def build(self, input_shape=None):
        """Creates every weight."""
        self.build_modality_weights()
        sides = (self.source_positions, self.target_positions, self.source_dropout, self.target_dropout)
        build_all((*sides, self.encoder, self.decoder), (None, None, self.hparams.hidden_size))

    @property
    def longest_sequence(self) -> int:
        """The length of the tables of positions."""
        return self.hparams.max_length

    def encode(self, features: dict[str, Any], seed=None) -> Memory:
        """Returns the encoded source: keys (B, S, D), values (B, S, D) and their mask (B, S)."""
        inputs = features[INPUTS]
        keep_BS = self.source_embedding.keep(inputs)
        e_BSD = self.source_positions(self.source_embedding(inputs, seed=seed) * EMBEDDING_DEVIATION)
        e_BSD = self.source_dropout(e_BSD, seed=seed)
        # Every attention of the decoder sends a gradient to the encoder (section 3.4).
        z_BSD = with_scaled_gradient(self.encoder(e_BSD, keep_BS, seed=seed), 1.0 / len(self.decoder.layers_))
        return Memory(z_BSD, (z_BSD + e_BSD) * ROOT_HALF, keep_BS)

    def decode(self, ids, encoded: Memory, keep_BT=None, cache: StepCache | None = None, seed=None):
        """Returns the decoder's output after `ids`; see the base class."""
        g = self.target_positions(self.target_embedding.before(ids, seed=seed) * EMBEDDING_DEVIATION, cache=cache)
        return self.decoder(self.target_dropout(g, seed=seed), encoded, cache=cache, seed=seed)


class Stack(keras.layers.Layer):
    """Gated convolutions between maps from and to D channels; `layers` are pairs (channels, window size)."""

    def __init__(self, width: int, layers: list[tuple[int, int]], dropout: float, causal: bool, **kwargs):
        super().__init__(**kwargs)
        policy = self.dtype_policy
        inputs = [layers[0][0], *(channels for channels, _ in layers[:-1])]
        self.narrow = linear(inputs[0], width, dropout, dtype=policy, name="narrow")
        self.layers_ = [
            GatedLayer(channels, before, kernel_size, causal, dropout, dtype=policy, name=f"layer_{i}")
            for i, (before, (channels, kernel_size)) in enumerate(zip(inputs, layers, strict=True))
        ]
        self.wide = linear(width, layers[-1][0], dtype=policy, name="wide")

    def build(self, input_shape):
        """Builds every layer for (B, T, D)."""
        build_all((self.narrow, *self.layers_), input_shape)
        self.wide.build((*input_shape[:-1], self.layers_[-1].channels))


class Encoder(Stack):
    """Gated convolutions with windows centred on each position."""

    def call(self, x_BSD, keep_BS, seed=None):
        """Returns z (B, S, D); positions where `keep_BS` (B, S) is False are read as zeros."""
        x_BSC = self.narrow(x_BSD)
        for layer in self.layers_:
            x_BSC = layer(x_BSC, keep_BS, seed=seed)
        return self.wide(x_BSC)


class Decoder(Stack):
    """Gated convolutions that end at each position, each layer with its own attention to the source."""

    def __init__(self, width: int, layers: list[tuple[int, int]], dropout: float, **kwargs):
        super().__init__(width, layers, dropout, causal=True, **kwargs)
        self.attentions = [
            MultiStepAttention(channels, width, dtype=self.dtype_policy, name=f"attention_{i}")
            for i, (channels, _) in enumerate(layers)
        ]
        self.dropout = Dropout(dropout, dtype=self.dtype_policy, name="dropout")

    def build(self, input_shape):
        """Builds every layer for (B, T, D)."""
        super().build(input_shape)
        build_all((*self.attentions, self.dropout), input_shape)

    def call(self, g, memory: Memory, cache: StepCache | None = None, seed=None):
        """Returns (B, T, D) from embeddings `g` (B, T, D): each position reads those up to it and the whole source.

        With a cache, `g` and the result are (N, D).
        """
        x = self.narrow(g, cache=cache)
        for layer, attention in zip(self.layers_, self.attentions, strict=True):
            x = layer(x, cache=cache, seed=seed, between=lambda h, attend=attention: attend(h, g, memory, cache=cache))
        return self.dropout(self.wide(x, cache=cache), seed=seed)
