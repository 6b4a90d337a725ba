"""The Transformer, in the order of section 3 of Vaswani et al., *Attention Is All You Need* (2017).

Sections 3.2 (attention), 3.3 (feed-forward), 3.4 (embeddings, the ends that every model has) and 3.5 (positions) are
layers of their own; this file is section 3.1: how they are stacked, and the same stacks one step at a time.

Legend: B batch, S source length, T target length, D width, V vocabulary, H heads. When decoding: N rows, in groups of
K beams that share a cache of L positions.
"""

import functools
from collections.abc import Callable
from typing import Any, ClassVar, NamedTuple

import keras
from keras import ops

from t2t.hparams.transformer import TransformerHParams
from t2t.layers.attention import KeysValues, MultiHeadAttention
from t2t.layers.cache import Cache, ancestors_keep, empty_cache, reorder_ancestors, set_own_position, write_position
from t2t.layers.costs import gathered_costs
from t2t.layers.dropout import Dropout
from t2t.layers.experts import Experts
from t2t.layers.feed_forward import FeedForward
from t2t.layers.masks import Span, keys_keep, padding_keep
from t2t.layers.norm import LayerNorm
from t2t.layers.positions import build_positions
from t2t.layers.residual import Residual
from t2t.models.base import READ_AS_VECTORS, Costed, DecodeContext, SequenceModel
from t2t.registry import register_model
from t2t.specs.constants import INPUTS, TARGETS
from t2t.specs.features import FeatureKind, ProblemSpec


class Encoded(NamedTuple):
    """What the decoder knows of a source sentence."""

    keys_values: tuple[KeysValues, ...]
    """Projected encoder output for each decoder layer: (B, H, S, channels of a head) each."""
    keep: Any
    """(B, S) bool, True at data."""


@register_model
class Transformer(SequenceModel):
    """Attention Is All You Need: encoder and decoder of attention; a decoder alone where there is no input."""

    hparams_class = TransformerHParams
    accepts_inputs: ClassVar[tuple[FeatureKind | None, ...]] = (*READ_AS_VECTORS, None)

    def __init__(self, hparams: TransformerHParams, spec: ProblemSpec, dtype: str = "float32", **kwargs):
        super().__init__(hparams, spec, dtype, **kwargs)
        # Positions (section 3.5)
        self.positions = build_positions(
            hparams.positions,
            hparams.max_length,
            hparams.hidden_size,
            hparams.sinusoid_layout,
            dtype=self.dtype_policy,
            name="positions",
        )
        # Stacks (section 3.1)
        rate = hparams.layer_prepostprocess_dropout
        self.encoder = Encoder(hparams, dtype=self.dtype_policy, name="encoder") if spec.inputs else None
        self.decoder = Decoder(hparams, bool(spec.inputs), dtype=self.dtype_policy, name="decoder")
        self.source_dropout = Dropout(rate, dtype=self.dtype_policy, name="source_dropout")
        self.target_dropout = Dropout(rate, dtype=self.dtype_policy, name="target_dropout")
        self.build()

    def _target_space(self):
        # Tensor2Tensor has a row of a Glorot-uniform table for each of 32 targets; a model of one target uses one row.
        limit = (6.0 / (32 + self.hparams.hidden_size)) ** 0.5
        return self.add_weight(
            name="target_space",
            shape=(self.hparams.hidden_size,),
            initializer=keras.initializers.RandomUniform(-limit, limit),
        )

    def build(self, input_shape=None):
        """Creates every weight."""
        self.build_ends()
        hidden = (None, None, self.hparams.hidden_size)
        for layer in (self.positions, self.encoder, self.decoder, self.source_dropout, self.target_dropout):
            if layer is not None:
                layer.build(hidden)
        self.target_space = None
        if self.encoder is not None and self.hparams.target_space_embedding:
            self.target_space = self._target_space()

    @property
    def longest_sequence(self) -> int | None:
        """The length of the table of learned positions; sinusoids go on."""
        return self.hparams.max_length if self.hparams.positions == "learned" else None

    def body(self, features: dict[str, Any], seed=None):
        """Returns the decoder's output, (B, T, D), with what its layers cost where they do; see the base class."""
        targets_BT = features[TARGETS]
        with gathered_costs() as costs:
            memory, keep_BS = None, None
            if self.encoder is not None:
                memory, keep_BS = self._encode_source(features[INPUTS], seed)
            shifted_BT = ops.pad(targets_BT[:, :-1], ((0, 0), (1, 0)))
            x_BTD = self.target_dropout(self._embed_targets(shifted_BT, 0), seed=seed)
            hidden_BTD = self.decoder(x_BTD, padding_keep(targets_BT), memory, keep_BS, seed=seed)
        return Costed(hidden_BTD, cost_per_target=sum(costs)) if costs else hidden_BTD

    def _encode_source(self, inputs, seed=None):
        x_BSD, keep_BS = self.source_embedding(inputs, seed=seed), self.source_embedding.keep(inputs)
        if self.target_space is not None:
            x_BSD = x_BSD + ops.cast(self.target_space, x_BSD.dtype)
        x_BSD = self.positions(x_BSD) if self.positions is not None else x_BSD
        return self.encoder(self.source_dropout(x_BSD, seed=seed), keep_BS, seed=seed), keep_BS

    def _embed_targets(self, ids_BT, start):
        x_BTD = self.target_embedding.before(ids_BT)
        return self.positions(x_BTD, start=start) if self.positions is not None else x_BTD

    def encode(self, features: dict[str, Any]) -> Encoded | None:
        """Returns the encoder's output, projected once for every decoder layer; None without inputs."""
        if self.encoder is None:
            return None
        memory_BSD, keep_BS = self._encode_source(features[INPUTS])
        return Encoded(tuple(layer.memory(memory_BSD) for layer in self.decoder.layers_), keep_BS)

    def init_cache(self, encoded: Encoded | None, rows: Any, length: Any, beams: int = 1) -> Cache:
        """Returns empty keys and values for the self-attention of every decoder layer; see the base class."""
        return self.decoder.empty_cache(rows // beams, beams, length)

    def decode_weights(self) -> tuple:
        """Returns, of each decoder layer, the weights of queries, keys and values as one matrix and bias."""
        return tuple(layer.self_attention.fused_weights() for layer in self.decoder.layers_)

    def step(self, ids_N, position, cache: Cache, prepared: DecodeContext):
        """Returns (N, D) and the cache with this position's keys and values in it; see the base class."""
        x_ND = self._embed_targets(ids_N[:, None], position)[:, 0]
        return self.decoder.step(x_ND, position, cache, prepared)

    def reorder_cache(self, cache: Cache, beams: Any) -> Cache:
        """Returns the cache after each beam went on from another; keys and values stay where they are."""
        return reorder_ancestors(cache, beams)


class Encoder(keras.layers.Layer):
    """N layers of self-attention and feed-forward (section 3.1)."""

    def __init__(self, hparams: TransformerHParams, **kwargs):
        super().__init__(**kwargs)
        self.span = Span(hparams.self_attention_reach, hparams.self_attention_reach)
        self.layers_ = [
            EncoderLayer(hparams, i, dtype=self.dtype_policy, name=f"layer_{i}") for i in range(hparams.encoder_layers)
        ]
        self.final_norm = _final_norm(hparams, self.dtype_policy)

    def build(self, input_shape):
        """Builds every layer for (B, S, D)."""
        _build_stack(self, input_shape)

    def call(self, x_BSD, keep_BS, seed=None):
        """Returns (B, S, D); positions where `keep_BS` (B, S) is False are not looked at."""
        keep = keys_keep(keep_BS)
        for layer in self.layers_:
            x_BSD = layer(x_BSD, keep, keep_BS, span=self.span, seed=seed)
        return self.final_norm(x_BSD) if self.final_norm is not None else x_BSD


class EncoderLayer(keras.layers.Layer):
    """Self-attention, then feed-forward, each in a residual connection."""

    def __init__(self, hparams: TransformerHParams, index: int, **kwargs):
        super().__init__(**kwargs)
        self.self_attention, self.self_attention_residual = _attention(self, hparams, "self_attention")
        self.feed_forward, self.feed_forward_residual = _feed_forward(self, hparams, index)

    def build(self, input_shape):
        """Builds every sub-layer for (B, S, D)."""
        for part in (self.self_attention, self.self_attention_residual, self.feed_forward, self.feed_forward_residual):
            part.build(input_shape)

    def call(self, x_BSD, keep, keep_BS, *, span: Span, seed=None):
        """Returns (B, S, D); each position sees those of `keep` (B, 1, 1, S), the same as `keep_BS`, within `span`."""
        x_BSD = self.self_attention_residual(
            x_BSD, sublayer=lambda x: self.self_attention(x, keep, seed=seed, span=span), seed=seed
        )
        return self.feed_forward_residual(
            x_BSD, sublayer=lambda x: self.feed_forward(x, seed=seed, keep_BT=keep_BS), seed=seed
        )


class Decoder(keras.layers.Layer):
    """N layers of masked self-attention, attention to the encoder's output, and feed-forward (section 3.1)."""

    def __init__(self, hparams: TransformerHParams, has_memory: bool, **kwargs):
        super().__init__(**kwargs)
        self.span = Span(hparams.self_attention_reach, 0)
        self.layers_ = [
            DecoderLayer(hparams, i, has_memory, dtype=self.dtype_policy, name=f"layer_{i}")
            for i in range(hparams.decoder_layers)
        ]
        self.final_norm = _final_norm(hparams, self.dtype_policy)

    def build(self, input_shape):
        """Builds every layer for (B, T, D)."""
        _build_stack(self, input_shape)

    def call(self, x_BTD, keep_BT, memory_BSD, memory_keep_BS, seed=None):
        """Returns (B, T, D); position t sees positions up to t, and the kept positions of `memory_BSD` (or None).

        What stands where `keep_BT` (B, T) bool is False changes no other position.
        """
        memory_keep = None if memory_keep_BS is None else keys_keep(memory_keep_BS)
        for layer in self.layers_:
            x_BTD = layer(x_BTD, keep_BT, memory_BSD, memory_keep, span=self.span, seed=seed)
        return self.final_norm(x_BTD) if self.final_norm is not None else x_BTD

    def step(self, x_ND, position, cache: Cache, prepared: DecodeContext):
        """Returns (N, D) for the one position, and the cache with it."""
        encoded = prepared.encoded
        ancestors = set_own_position(cache, position)
        keep = ancestors_keep(ancestors, position, self.span)
        memory_keep = None if encoded is None else keys_keep(encoded.keep)
        write = functools.partial(write_position, type(cache), position=position)
        layers = []
        for i, layer in enumerate(self.layers_):
            memory = None if encoded is None else encoded.keys_values[i]
            x_ND, written = layer.step(x_ND, cache.layers[i], write, keep, memory, memory_keep, prepared.weights[i])
            layers.append(written)
        x_ND = self.final_norm(x_ND) if self.final_norm is not None else x_ND
        return x_ND, type(cache)(tuple(layers), ancestors)

    def empty_cache(self, groups, beams: int, length) -> Cache:
        """Returns a cache of no position for every layer."""
        layer = self.layers_[0]
        return empty_cache(
            groups, beams, layer.num_heads, layer.head_channels, len(self.layers_), length, layer.compute_dtype
        )


class DecoderLayer(keras.layers.Layer):
    """Masked self-attention, attention to the encoder's output where there is one, feed-forward."""

    def __init__(self, hparams: TransformerHParams, index: int, has_memory: bool, **kwargs):
        super().__init__(**kwargs)
        self.self_attention, self.self_attention_residual = _attention(self, hparams, "self_attention")
        self.memory_attention: Any
        self.memory_attention_residual: Any
        self.memory_attention, self.memory_attention_residual = (
            _attention(self, hparams, "encdec_attention") if has_memory else (None, None)
        )
        self.feed_forward, self.feed_forward_residual = _feed_forward(self, hparams, index)
        self.num_heads = hparams.num_heads
        self.head_channels = KeysValues(
            hparams.key_channels // hparams.num_heads, hparams.value_channels // hparams.num_heads
        )

    def build(self, input_shape):
        """Builds every sub-layer for (B, T, D)."""
        attention = (self.self_attention, self.self_attention_residual)
        memory = (self.memory_attention, self.memory_attention_residual)
        for part in (*attention, *memory, self.feed_forward, self.feed_forward_residual):
            if part is not None:
                part.build(input_shape)

    def call(self, x_BTD, keep_BT, memory_BSD, memory_keep, *, span: Span, seed=None):
        """Returns (B, T, D)."""
        x_BTD = self.self_attention_residual(
            x_BTD, sublayer=lambda x: self.self_attention(x, None, seed=seed, span=span), seed=seed
        )
        if self.memory_attention is not None:
            memory = self.memory(memory_BSD)
            x_BTD = self.memory_attention_residual(
                x_BTD, sublayer=lambda x: self._attend_to_memory(x, memory, memory_keep, seed), seed=seed
            )
        return self.feed_forward_residual(
            x_BTD, sublayer=lambda x: self.feed_forward(x, seed=seed, keep_BT=keep_BT), seed=seed
        )

    def step(self, x_ND, past: KeysValues, write: Callable, keep, memory: Any, memory_keep, fused):
        """Returns (N, D) for the one position of every row, and the keys and values with it.

        Args:
            x_ND: rows.
            past: keys and values of the positions before, of groups of K beams.
            write: `write(past, new)` gives `past` with new ones, (N / K, H, K, channels of a head).
            keep: (N / K, 1, K, L*K) bool, what each row sees of them.
            memory: `KeysValues` of the encoder's output, or None.
            memory_keep: (B, 1, 1, S) bool.
            fused: weights of queries, keys and values.
        """
        before_GKD = _group_beams(self.self_attention_residual.before(x_ND), keep.shape[2])
        query, new = self.self_attention.query_keys_values(before_GKD, fused)
        written = write(past, new)
        found_ND = _flatten_beams(self.self_attention.combine(query, written, keep))
        x_ND = self.self_attention_residual.after(x_ND, found_ND)
        if self.memory_attention is not None:
            x_ND = self.memory_attention_residual(
                x_ND, sublayer=lambda x: self._beams_attend_to_memory(x, memory, memory_keep, keep.shape[2])
            )
        return self.feed_forward_residual(x_ND, sublayer=self.feed_forward), written

    def _beams_attend_to_memory(self, x_ND, memory: KeysValues, keep, beams: int):
        # The rows of a sentence are so many queries of it: its keys and values need no copy for each. Where rows search
        # alone, a sentence may have several; where it has one group of beams, their number is known beforehand.
        if beams == 1:
            beams = ops.shape(x_ND)[0] // ops.shape(memory.keys)[0]
        attention = self.memory_attention
        return _flatten_beams(attention.combine(attention.query(_group_beams(x_ND, beams)), memory, keep))

    def memory(self, memory_BSD) -> KeysValues:
        """Returns the keys and values (B, H, S, channels of a head) of the encoder's output."""
        return self.memory_attention.keys_values(memory_BSD)

    def _attend_to_memory(self, x_BTD, memory: KeysValues, keep, seed=None):
        return self.memory_attention.attend(self.memory_attention.query(x_BTD), memory, keep, seed)


def _group_beams(x_ND, beams):
    return ops.reshape(x_ND, (-1, beams, x_ND.shape[-1]))


def _flatten_beams(x_GKD):
    return ops.reshape(x_GKD, (-1, x_GKD.shape[-1]))


def _attention(layer: keras.layers.Layer, hparams: TransformerHParams, name: str):
    attention = MultiHeadAttention(
        hparams.hidden_size,
        hparams.num_heads,
        hparams.key_channels,
        hparams.value_channels,
        hparams.attention_dropout,
        hparams.attention_bias,
        hparams.max_length,
        dtype=layer.dtype_policy,
        name=name,
    )
    return attention, _residual(layer, hparams, name)


def _feed_forward(layer: keras.layers.Layer, hparams: Any, index: int):
    sizes = (hparams.hidden_size, hparams.filter_size)
    rest = {"dtype": layer.dtype_policy, "name": "ffn"}
    if experts := hparams.experts_in(index):
        mixture = (experts, hparams.experts_per_token, hparams.expert_balance)
        feed_forward = Experts(*sizes, *mixture, hparams.activation, hparams.relu_dropout, **rest)
    else:
        feed_forward = FeedForward(*sizes, hparams.activation, hparams.relu_dropout, **rest)
    return feed_forward, _residual(layer, hparams, "ffn")


def _residual(layer: keras.layers.Layer, hparams: TransformerHParams, name: str) -> Residual:
    return Residual(
        hparams.norm_position,
        hparams.norm_epsilon,
        hparams.layer_prepostprocess_dropout,
        dtype=layer.dtype_policy,
        name=f"{name}_residual",
    )


def _final_norm(hparams: TransformerHParams, dtype_policy) -> keras.layers.Layer | None:
    # With norms inside the residual branches, the sum that leaves the stack has not been normalised.
    if hparams.norm_position == "post":
        return None
    return LayerNorm(hparams.norm_epsilon, dtype=dtype_policy, name="final_norm")


def _build_stack(stack: Encoder | Decoder, input_shape) -> None:
    for layer in stack.layers_:
        layer.build(input_shape)
    if stack.final_norm is not None:
        stack.final_norm.build(input_shape)
