"""The Transformer, in the order of section 3 of Vaswani et al., *Attention Is All You Need* (2017).

Sections 3.2 (attention), 3.3 (feed-forward), 3.4 (embeddings, the modalities that every model has) and 3.5 (positions)
are layers of their own; this file is section 3.1: how they are stacked. The same stacks serve training, on whole
sequences, and decoding, on one position at a time with a cache of the earlier ones; see `t2t.layers.cache`.

Legend: B batch, S source length, T target length, D width, J heads of keys and values; for the SSRU, Q blocks of a
sequence, R positions of a block. In a decoding step: N rows of one position each; a tensor named only `x` is (B, T, D)
or (N, D).
"""

from collections.abc import Callable, Sequence
from typing import Any, ClassVar, NamedTuple, Unpack

import keras
from keras import ops

from t2t.errors import UserError
from t2t.hparams.transformer import TransformerHParams
from t2t.layers.attention import MultiHeadAttention
from t2t.layers.cache import CachingLayer, KeysValues, StepCache
from t2t.layers.dropout import Dropout
from t2t.layers.feed_forward import Experts, FeedForward
from t2t.layers.loops import run_layers, scan
from t2t.layers.masks import BlockWindow, Grid, Span, example_numbers, keys_keep, same_example, words_keep
from t2t.layers.mode import custom_gradient
from t2t.layers.norm import LayerNorm, RmsNorm, build_norm
from t2t.layers.positions import (
    NextWord,
    Positions,
    RelativeBias,
    SourceWords,
    WordCounts,
    build_positions,
    word_starts_of,
)
from t2t.layers.residual import CompositeLayer, Residual
from t2t.layers.tensors import Features, Named, Tensor, missing_to_multiple
from t2t.models.base import READ_AS_VECTORS, EncoderDecoder, SequenceModel
from t2t.registry import register_model
from t2t.specs import INPUTS, POSITIONS, TARGETS
from t2t.specs.features import FeatureKind, ProblemSpec

SSRU_BLOCK = 8
"""Positions that `linear_recurrence` computes in one iteration of its loop."""


class EncodedSource(NamedTuple):
    """The encoded source sentences, as the decoder attends to them."""

    keys_values: tuple[KeysValues, ...]
    """For each decoder layer, `KeysValues` of the encoder's output, (B, J, S, channels of a head) each."""
    keep: Tensor
    """(B, S) bool, True at data."""
    numbers: Tensor | tuple[()] = ()
    """(B, S) int32: number of the example in its packed row that a position belongs to; () if rows are not packed."""
    words: SourceWords | tuple[()] = ()
    """`SourceWords` if the decoder reads the next word, otherwise ()."""


AttentionMasks = tuple[Sequence[KeysValues | None], Tensor | None, Tensor | None]
"""For a decoder: each layer's keys and values of the source, and the masks of source keys and target keys."""


@register_model
class Transformer(EncoderDecoder):
    """The Transformer of Attention Is All You Need: an encoder and a decoder; only a decoder without inputs."""

    hparams_class = TransformerHParams
    accepts_inputs: ClassVar[tuple[FeatureKind | None, ...]] = (*READ_AS_VECTORS, None)
    packs_examples = True

    def __init__(self, hparams: TransformerHParams, spec: ProblemSpec, dtype: str = "float32", **kwargs):
        super().__init__(hparams, spec, dtype, **kwargs)
        # Positions (section 3.5)
        policy, rate = self.dtype_policy, hparams.layer_prepostprocess_dropout
        self.positions = self.create_positions(dtype=policy, name="positions")
        self.source_words = self.target_words = self.next_word = None
        if hparams.positions == "words":
            if spec.inputs:
                self.source_words = WordCounts(word_starts_of(spec, INPUTS), name="source_words")
            self.target_words = WordCounts(word_starts_of(spec, TARGETS), first=1, name="target_words")
        if hparams.read_next_word:
            if spec.inputs is None:
                raise UserError("the problem has no inputs to read words of", "leave it out", hparam="read_next_word")
            self.next_word = NextWord(hparams.hidden_size, dtype=policy, name="next_word")
        # Stacks (section 3.1)
        self.encoder = self.create_encoder(dtype=policy, name="encoder") if spec.inputs else None
        self.decoder = self.create_decoder(bool(spec.inputs), dtype=policy, name="decoder")
        self.source_dropout = Dropout(rate, dtype=policy, name="source_dropout")
        self.target_dropout = Dropout(rate, dtype=policy, name="target_dropout")
        self.build()

    def build(self, input_shape=None):
        """Creates every weight."""
        super().build()
        self.target_space = None
        if self.encoder is not None and self.hparams.target_space_embedding:
            # Tensor2Tensor has a Glorot-uniform table of 32 target spaces, of which a model uses one row.
            width = self.hparams.hidden_size
            limit = (6.0 / (32 + width)) ** 0.5
            uniform = keras.initializers.RandomUniform(-limit, limit)
            self.target_space = self.add_weight(name="target_space", shape=(width,), initializer=uniform)

    @classmethod
    def unread_hparams(cls, spec: ProblemSpec) -> dict[str, str]:
        """Adds those of the encoder, without inputs; see the base class."""
        found = super().unread_hparams(spec)
        if not spec.inputs:
            why = f"problem {spec.name} has no inputs, so the model has no encoder"
            found |= dict.fromkeys(("num_encoder_layers", "target_space_embedding", "input_end"), why)
        return found

    @property
    def longest_sequence(self) -> int | None:
        """The length of the table of learned positions; sinusoids have no limit."""
        return self.hparams.max_length if self.hparams.positions == "learned" else None

    def create_positions(self, **named: Unpack[Named]) -> Positions | None:
        """Returns the unbuilt layer that adds positions to embeddings; None if nothing is added."""
        hparams = self.hparams
        sizes = (hparams.max_length, hparams.hidden_size)
        kind = "sinusoidal" if hparams.positions == "words" else hparams.positions
        return build_positions(kind, *sizes, hparams.sinusoid_layout, **named)

    def create_encoder(self, **named: Unpack[Named]) -> Any:
        """Returns the unbuilt encoder; subclasses may override this."""
        return Encoder(self.hparams, **named)

    def create_decoder(self, has_source: bool, **named: Unpack[Named]) -> Any:
        """Returns the unbuilt decoder; subclasses may override this."""
        return Decoder(self.hparams, has_source, **named)

    def encode(self, features: Features, seed=None) -> EncodedSource | None:
        """Returns the encoder's output, projected for every layer of the decoder; None without inputs."""
        if self.encoder is None:
            return None
        position_BS = features.get(POSITIONS[INPUTS])
        number_BS = None if position_BS is None else example_numbers(position_BS)
        if self.source_words is not None:
            position_BS = self.source_words(features[INPUTS])
        x_BSD, keep_BS = self.embed_source(features[INPUTS], position_BS, seed=seed)
        x_BSD = self.encoder(x_BSD, keep_BS, number_BS, seed=seed)
        source = self.decoder.read_source(x_BSD, keep_BS)
        if self.next_word is not None:
            source = source._replace(words=self.next_word.read_source(x_BSD, position_BS, keep_BS))
        return source if number_BS is None else source._replace(numbers=number_BS)

    def embed_source(self, inputs, position_BS=None, seed=None) -> tuple[Tensor, Tensor]:
        """Returns the encoder's input vectors (B, S, D), and which of them may be attended to, (B, S) bool."""
        x_BSD = self.source_embedding(inputs, seed=seed)
        if self.target_space is not None:
            x_BSD = x_BSD + ops.cast(self.target_space, x_BSD.dtype)
        x_BSD = self.place_source(x_BSD, position_BS)
        return self.source_dropout(x_BSD, seed=seed), self.source_keep(inputs)

    def source_keep(self, inputs):
        """Returns which inputs may be attended to, (B, S) bool, see `attended_inputs`."""
        return attended_inputs(self, inputs)

    def place_source(self, x_BSD, position_BS=None):
        """Adds positions to embedded inputs (B, S, D); subclasses may use other positions than for targets."""
        return self.positions(x_BSD, position_BS) if self.positions is not None else x_BSD

    def decode(
        self,
        ids,
        encoded: EncodedSource | None,
        keep_BT=None,
        cache: StepCache | None = None,
        seed=None,
        position_BT=None,
    ):
        """Returns the decoder's output after `ids`; see the base class.

        In packed rows, `position_BT` (B, T) int32 is the position of each id within its example.
        """
        x = self.target_embedding.before(ids, seed=seed)
        place = position_BT if self.target_words is None else self.target_words(ids, cache=cache)
        x = self.positions(x, place, cache=cache) if self.positions is not None else x
        if self.next_word is not None and encoded is not None:
            x = self.next_word(x, place, encoded.words, cache=cache)
        number_BT = None if position_BT is None else example_numbers(position_BT)
        return self.decoder(self.target_dropout(x, seed=seed), encoded, keep_BT, number_BT, cache=cache, seed=seed)


@register_model
class TransformerLm(Transformer):
    """A language model: the Transformer's decoder alone, without inputs."""

    hparams_class = TransformerHParams
    accepts_inputs = (None,)


class EncoderLayer(CompositeLayer):
    """Self-attention, then feed-forward, each in a residual connection."""

    def __init__(self, hparams: TransformerHParams, index: int, relative_bias: RelativeBias | None = None, **kwargs):
        super().__init__(**kwargs)
        span = Span(hparams.self_attention_reach, hparams.self_attention_reach)
        attention = build_self_attention(self, hparams, span, is_cached=False, relative_bias=relative_bias)
        self.self_attention = build_residual(self, hparams, attention)
        self.feed_forward = build_feed_forward(self, hparams, index)

    def call(self, x_BSD, keep, keep_BS, seed=None):
        """Returns (B, S, D); `keep` is what `keys_keep` returned, see `Encoder`."""
        x_BSD = self.self_attention(x_BSD, keep=keep, seed=seed)
        return self.feed_forward(x_BSD, keep_BT=keep_BS, seed=seed)


class Encoder(CompositeLayer):
    """N layers of self-attention and feed-forward (section 3.1), or of another class or function, `layer`."""

    def __init__(self, hparams: TransformerHParams, layer: Callable[..., Any] = EncoderLayer, **kwargs):
        super().__init__(**kwargs)
        shared = build_shared(self, hparams, is_causal=False)
        self.layers_ = [
            layer(hparams, i, **shared, dtype=self.dtype_policy, name=f"layer_{i}")
            for i in range(hparams.encoder_layers)
        ]
        self.relative_bias = shared.get("relative_bias")
        self.final_norm = build_final_norm(self, hparams)

    def call(self, x_BSD, keep_BS, number_BS=None, seed=None):
        """Returns (B, S, D); positions where `keep_BS` (B, S) is False are not attended to.

        In packed rows, a position attends only to its own example; `number_BS` is from `example_numbers`.
        """
        keep = keys_keep(keep_BS, number_BS, number_BS)

        def call(layer, x_BSD, _, seed):
            return layer(x_BSD, keep, keep_BS, seed=seed)

        x_BSD = run_layers(self.layers_, call, x_BSD, seed=seed)
        return self.final_norm(x_BSD) if self.final_norm is not None else x_BSD


class DecoderLayer(CompositeLayer):
    """Masked self-attention or SSRU, attention to the encoder's output where there is one, feed-forward.

    `passes` is for layers that keep earlier positions, see `CachingLayer`; `relative_bias` for self-attention.
    """

    def __init__(
        self, hparams: TransformerHParams, index: int, has_source: bool, relative_bias: RelativeBias | None = None,
        passes: int | None = None, **kwargs,
    ):  # fmt: skip
        super().__init__(**kwargs)
        reader = self.create_target_reader(hparams, passes=passes, relative_bias=relative_bias)
        self.target_reader = build_residual(self, hparams, reader)
        self.source_attention: Any = None
        if has_source:
            self.source_attention = build_residual(self, hparams, build_attention(self, hparams, "encdec_attention"))
        self.feed_forward = build_feed_forward(self, hparams, index)

    def create_target_reader(self, hparams: TransformerHParams, passes: int | None, **settings: Any) -> CachingLayer:
        """Returns the unbuilt layer that reads targets up to each position; subclasses may override this.

        `settings` are further arguments of self-attention.
        """
        if hparams.decoder_layer == "ssru":
            return Ssru(passes=passes, dtype=self.dtype_policy, name="ssru")
        grid = hparams.target_grid
        span = BlockWindow(Grid(*grid)) if grid else Span(hparams.self_attention_reach, 0)
        return build_self_attention(self, hparams, span, passes=passes, **settings)

    def read_source(self, x_BSD) -> KeysValues:
        """Returns this layer's keys and values of the encoder's output (B, S, D)."""
        keys_values: KeysValues = self.source_attention.layer.keys_values(x_BSD)
        return keys_values

    def call(
        self, x, source: KeysValues | None, source_keep, target_keep, keep_BT, cache: StepCache | None = None, seed=None
    ):
        """Returns (B, T, D), or with a cache (N, D).

        `source_keep` and `target_keep` are masks of keys, (B, 1, 1 or T, S or T) bool, or None; see `Decoder`.
        """
        x = self.target_reader(x, keep=target_keep, cache=cache, seed=seed)
        if self.source_attention is not None:
            x = self.source_attention(x, memory=source, keep=source_keep, cache=cache, seed=seed)
        return self.feed_forward(x, keep_BT=keep_BT, seed=seed)


class Decoder(CompositeLayer):
    """N layers of masked self-attention or SSRU, attention to the encoder's output, and feed-forward (section 3.1).

    They may be of another class or function, `layer`.
    """

    is_causal: ClassVar[bool] = True
    """Whether targets attend only to those before them."""

    def __init__(
        self, hparams: TransformerHParams, has_source: bool, layer: Callable[..., Any] = DecoderLayer, **kwargs
    ):
        super().__init__(**kwargs)
        hparams = hparams.of_decoder
        attends = hparams.decoder_layer != "ssru" or not self.is_causal
        shared = build_shared(self, hparams, self.is_causal) if attends else {}
        self.layers_ = [
            layer(hparams, i, has_source, **shared, dtype=self.dtype_policy, name=f"layer_{i}")
            for i in range(hparams.decoder_layers)
        ]
        self.relative_bias = shared.get("relative_bias")
        self.final_norm = build_final_norm(self, hparams)

    def read_source(self, x_BSD, keep_BS) -> EncodedSource:
        """Projects the encoder's output (B, S, D) for every layer; `keep_BS` (B, S) bool is True at data."""
        return EncodedSource(tuple(layer.read_source(x_BSD) for layer in self.layers_), keep_BS)

    def call(
        self, x, source: EncodedSource | None, keep_BT=None, number_BT=None, cache: StepCache | None = None, seed=None
    ):
        """Returns `x` after all layers: (B, T, D), where position t sees those up to t, or with a cache (N, D).

        `keep_BT` (B, T) bool is False at padding, which does not affect other positions. In packed rows, a position
        sees only its own example; `number_BT` is from `example_numbers`.
        """
        keys_values, source_keep, target_keep = self.masks(source, keep_BT, number_BT)

        def call(layer, x, own, seed):
            return layer(x, own, source_keep, target_keep, keep_BT, cache=cache, seed=seed)

        x = run_layers(self.layers_, call, x, None if source is None else keys_values, seed, cache)
        return self.final_norm(x) if self.final_norm is not None else x

    def masks(self, source: EncodedSource | None, keep_BT, number_BT) -> AttentionMasks:
        """Returns each layer's keys and values of the source, and the masks of source keys and target keys.

        The mask of target keys only separates packed examples: padding comes last, so no data position sees it.
        """
        target_keep = None if number_BT is None else same_example(number_BT, number_BT)
        if source is None:
            return [None] * len(self.layers_), None, target_keep
        return source.keys_values, keys_keep(source.keep, number_BT, source.numbers), target_keep


class Ssru(CachingLayer):
    """A recurrent layer that replaces self-attention in a decoder, without matrix products between steps.

        f_t = sigmoid(x_t W_f + b_f)
        c_t = f_t c_(t-1) + (1 - f_t) x_t W,  c_(-1) = 0
        o_t = relu(c_t)

    Kim et al., *From Research to Production and Back: Ludicrously Fast Neural Machine Translation* (2019), section on
    SSRU: the unit of Lei et al. (2018) with one gate. Its state is one vector for all earlier positions, so a decoding
    step costs the same at every position. States are float32 in every precision.
    """

    def build(self, input_shape):
        """Creates W_f and W side by side (D, 2D), Glorot uniform each, and b_f (D,) for inputs (..., D)."""
        self.width = input_shape[-1]
        limit = (6.0 / (2 * self.width)) ** 0.5
        uniform = keras.initializers.RandomUniform(-limit, limit)
        self.kernel = self.add_weight(name="kernel", shape=(self.width, 2 * self.width), initializer=uniform)
        self.gate_bias = self.add_weight(name="gate_bias", shape=(self.width,), initializer="zeros")

    def call(self, x, keep=None, cache: StepCache | None = None, seed=None):
        """Returns the outputs (B, T, D) of (B, T, D); with a cache (N, D) of (N, D), for a decoding step.

        `keep` and `seed` are unused, and are there for `MultiHeadAttention`, which this layer can replace.
        """
        # As rows of a matrix: with unknown sizes, a product with more axes costs a dozen more small operations.
        product = ops.reshape(ops.matmul(ops.reshape(x, (-1, self.width)), self.kernel), (*ops.shape(x)[:-1], -1))
        gate, fresh = ops.split(ops.cast(product, "float32"), 2, axis=-1)
        forget = ops.sigmoid(gate + ops.cast(self.gate_bias, "float32"))
        added = (1.0 - forget) * fresh
        if cache is None:
            state = linear_recurrence(forget, added)
        else:
            state = forget * cache.state(self.path) + added
            cache.set_state(self.path, state)
        return ops.cast(ops.relu(state), x.dtype)

    def empty_entry(self, rows, beams: int, length) -> Tensor:
        """Returns the state before the first position, (N, D) zeros."""
        return ops.zeros((rows, self.width), "float32")


def linear_recurrence(factor_BTD, added_BTD):
    """Returns c (B, T, D) float32: c_t = factor_t c_(t-1) + added_t, with c_(-1) = 0.

    Its gradient is written as another such recurrence, from the last position to the first. No loop is differentiated,
    so training keeps only the states, and XLA can compile it.
    """

    @custom_gradient
    def states_of(factor_BTD, added_BTD):
        state_BTD = _recurrence(factor_BTD, added_BTD)

        def gradient(upstream_BTD):
            # g_t = upstream_t + factor_(t+1) g_(t+1)
            later_BTD = ops.pad(factor_BTD[:, 1:], ((0, 0), (0, 1), (0, 0)))
            g_BTD = ops.flip(_recurrence(ops.flip(later_BTD, axis=1), ops.flip(upstream_BTD, axis=1)), axis=1)
            before_BTD = ops.pad(state_BTD[:, :-1], ((0, 0), (1, 0), (0, 0)))
            return g_BTD * before_BTD, g_BTD

        return state_BTD, gradient

    return states_of(factor_BTD, added_BTD)


def _recurrence(factor_BTD, added_BTD):
    """Returns c (B, T, D): computes all blocks in parallel, then a scan over the ends of the blocks."""
    batch, length, width = ops.shape(factor_BTD)
    missing = missing_to_multiple(length, SSRU_BLOCK)

    def split_into_blocks(x_BTD):
        return ops.reshape(ops.pad(x_BTD, ((0, 0), (0, missing), (0, 0))), (batch, -1, SSRU_BLOCK, width))

    factor_BQRD, added_BQRD = split_into_blocks(factor_BTD), split_into_blocks(added_BTD)
    product, state = factor_BQRD[:, :, 0], added_BQRD[:, :, 0]
    products, states = [product], [state]  # of the factors since the block's start; from a zero state there
    for r in range(1, SSRU_BLOCK):
        product = product * factor_BQRD[:, :, r]
        state = factor_BQRD[:, :, r] * state + added_BQRD[:, :, r]
        products.append(product)
        states.append(state)

    def step(end_BD, given):
        product_BD, state_BD = given
        return product_BD * end_BD + state_BD

    _, ends_QBD = scan(step, ops.zeros_like(state[:, 0]), (ops.swapaxes(product, 0, 1), ops.swapaxes(state, 0, 1)))
    before_QBD = ops.pad(ends_QBD[:-1], ((1, 0), (0, 0), (0, 0)))
    before_BQ1D = ops.swapaxes(before_QBD, 0, 1)[:, :, None]
    state_BQRD = ops.stack(states, axis=2) + ops.stack(products, axis=2) * before_BQ1D
    return ops.reshape(state_BQRD, (batch, -1, width))[:, :length]


def attended_inputs(model: SequenceModel, inputs):
    """Returns which inputs may be attended to, (B, S) bool: data, with `input_end=false` without the end of tokens."""
    has_tokens = model.spec.inputs is not None and model.spec.inputs.kind == FeatureKind.TOKENS
    return model.source_embedding.keep(inputs) if model.hparams.input_end or not has_tokens else words_keep(inputs)


def build_self_attention(
    owner: keras.layers.Layer, hparams: TransformerHParams, span: Span | BlockWindow, **settings: Any
) -> MultiHeadAttention:
    """Returns the self-attention layer of `owner`, with the relative or rotary positions that the hparams choose.

    `settings` are further arguments of `MultiHeadAttention`.
    """
    distance = hparams.max_relative_position if hparams.positions == "relative" else 0
    settings |= {"max_relative_position": distance, "rotary": hparams.positions == "rotary"}
    settings |= {"relative_keys": hparams.relative_keys}
    return build_attention(owner, hparams, "self_attention", span=span, **settings)


def build_shared(stack: CompositeLayer, hparams: TransformerHParams, is_causal: bool) -> dict[str, RelativeBias]:
    """Returns the arguments that all layers of a stack share: their `relative_bias`; empty with other positions."""
    if hparams.positions != "relative_bias":
        return {}
    buckets = (hparams.relative_bias_buckets, hparams.relative_bias_max_distance)
    bias = RelativeBias(hparams.num_heads, *buckets, is_causal, dtype=stack.dtype_policy, name="relative_bias")
    return {"relative_bias": bias}


def build_attention(
    owner: keras.layers.Layer,
    hparams: TransformerHParams,
    name: str,
    kind: type[MultiHeadAttention] = MultiHeadAttention,
    **settings: Any,
) -> MultiHeadAttention:
    """Returns an attention layer of `owner`, of class `kind`; `settings` are further arguments of the class."""
    sizes = (hparams.hidden_size, hparams.num_heads, hparams.key_channels, hparams.value_channels)
    common = (hparams.attention_dropout, hparams.attention_bias, hparams.max_length)
    settings |= {"num_kv_heads": hparams.num_kv_heads, "dtype": owner.dtype_policy, "name": name}
    return kind(*sizes, *common, **settings)


def build_feed_forward(owner: keras.layers.Layer, hparams: Any, index: int, activation: str = "") -> Residual:
    """Returns the feed-forward part of layer `index` as a `Residual`; `activation` overrides that of the hparams."""
    sizes = (hparams.hidden_size, hparams.filter_size)
    maps = (hparams.gated_feed_forward, hparams.feed_forward_bias)
    settings: Any = (activation or hparams.activation, hparams.relu_dropout, *maps)
    named = {"dtype": owner.dtype_policy, "name": "ffn"}
    feed_forward: keras.layers.Layer
    if experts := hparams.experts_in(index):
        mixture = (experts, hparams.experts_per_token, hparams.expert_balance)
        feed_forward = Experts(*sizes, *mixture, *settings, **named)
    else:
        feed_forward = FeedForward(*sizes, *settings, **named)
    return build_residual(owner, hparams, feed_forward)


def build_residual(owner: keras.layers.Layer, hparams: TransformerHParams, layer: keras.layers.Layer) -> Residual:
    """Wraps a layer of `owner` in the residual connection that the hparams describe."""
    settings = (hparams.norm_position, hparams.norm_epsilon, hparams.layer_prepostprocess_dropout, hparams.norm_type)
    return Residual(layer, *settings, dtype=owner.dtype_policy, name=f"{layer.name}_residual")


def build_final_norm(owner: keras.layers.Layer, hparams: TransformerHParams) -> LayerNorm | RmsNorm | None:
    """Returns the norm at the end of a stack; None where its layers end with one."""
    # With norms inside the residual branches, the sum that leaves the stack has not been normalised.
    if hparams.norm_position == "post":
        return None
    return build_norm(hparams.norm_type, hparams.norm_epsilon, dtype=owner.dtype_policy, name="final_norm")
