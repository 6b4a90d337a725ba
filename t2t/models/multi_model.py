"""The MultiModel, in the order of section 2 of Kaiser et al., *One Model To Learn Them All* (2017, arXiv:1706.05137).

Sections 2.1 (convolutional blocks), 2.2 (attention blocks), 2.3 (mixtures of experts) and 2.5 (the nets of modalities,
the ends that every model has) are layers of their own; this file is section 2.4: encoder, mixer and decoder.

Legend: B batch, S source length, T target length, D width, V vocabulary, N rows decoded together in groups of K beams.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

import keras
from keras import ops

from t2t.hparams.multi_model import MultiModelHParams
from t2t.layers.beams import reorder_rows
from t2t.layers.cache import Cache, empty_cache, reorder_ancestors, set_own_position
from t2t.layers.costs import gathered_costs
from t2t.layers.experts import Experts
from t2t.layers.masks import padding_keep
from t2t.layers.multi_attention import AttentionSource, Memory, MultiAttention
from t2t.layers.positions import SinusoidalPositions
from t2t.layers.residual import Residual
from t2t.layers.separable_convolution import EPSILON, Separability
from t2t.layers.slice_modules import ConvModule, StepSettings
from t2t.models.base import READ_AS_VECTORS, Costed, DecodeContext, SequenceModel
from t2t.registry import register_model
from t2t.specs.constants import INPUTS, TARGETS
from t2t.specs.features import FeatureKind, ProblemSpec


class DecoderCache(NamedTuple):
    """What the next position needs of those before it."""

    windows: tuple
    """Of mixer and decoder, what windows reach, (N, R, D) each."""
    attention: Cache
    """Keys and values of every attention block's own positions."""


@register_model
class MultiModel(SequenceModel):
    """One Model To Learn Them All: convolutions, attention and mixtures of experts, for problems of several kinds."""

    hparams_class = MultiModelHParams
    accepts_inputs = READ_AS_VECTORS
    accepts_targets = (FeatureKind.TOKENS, FeatureKind.LABEL)
    has_command = True

    def __init__(self, hparams: MultiModelHParams, spec: ProblemSpec, dtype: str = "float32", **kwargs):
        super().__init__(hparams, spec, dtype, **kwargs)
        given = {"hparams": hparams, "dtype": self.dtype_policy}
        self.timing = SinusoidalPositions(hparams.hidden_size, dtype=self.dtype_policy, name="timing")
        self.encoder = [block(name=f"encoder_{i}", causal=False, **given) for i in range(hparams.num_hidden_layers)]
        self.encoder_experts = ExpertBlock(name="encoder_experts", **given)
        self.mixer = Mixer(attends_itself=self.autoregressive, name="mixer", **given)
        self.decoder = [
            AttentionBlock(attends_itself=self.autoregressive, name=f"decoder_{i}", **given)
            for i in range(hparams.num_decoder_layers)
        ]
        self.decoder_experts = ExpertBlock(name="decoder_experts", **given)
        self.build()

    @classmethod
    def writes(cls, spec: ProblemSpec) -> bool:
        """Returns whether it writes a problem's targets one by one: it does, but for classes."""
        return any(member.targets.kind == FeatureKind.TOKENS for member in spec.members or [spec])

    def build(self, input_shape=None):
        """Creates every weight."""
        self.build_ends()
        for layer in (
            self.timing,
            *self.encoder,
            self.encoder_experts,
            self.mixer,
            *self.decoder,
            self.decoder_experts,
        ):
            layer.build((None, None, self.hparams.hidden_size))

    def body(self, features: dict[str, Any], seed=None) -> Costed:
        """Returns the decoder's output, (B, T, D) or of a class (B, D), with what the experts cost; see the base."""
        with gathered_costs() as costs:
            source, keep_BS = self._encode_source(features[INPUTS], seed)
            if self.autoregressive:
                targets_BT = features[TARGETS]
                shifted_BT = ops.pad(targets_BT[:, :-1], ((0, 0), (1, 0)))
                x_BTD, keep_BT = self._before(shifted_BT, 0), padding_keep(targets_BT)
            else:  # one position, which reads the command alone
                x_BTD = ops.broadcast_to(self._command(), (ops.shape(source)[0], 1, self.hparams.hidden_size))
                keep_BT = ops.ones_like(x_BTD[..., 0], dtype="bool")
            x_BTD = self._decode(x_BTD, keep_BT, self._memories(source, keep_BS), seed)
        hidden = x_BTD if self.autoregressive else x_BTD[:, 0]
        return Costed(hidden, cost_per_target=sum(costs))

    def _command(self):
        return ops.cast(ops.convert_to_tensor(self.command.vector), self.compute_dtype)

    def _before(self, ids_BT, start):
        """Returns the vectors of the tokens before each position; before the first stands the problem's command."""
        is_first_T = ops.equal(ops.arange(ops.shape(ids_BT)[1]) + start, 0)
        return ops.where(is_first_T[:, None], self._command(), self.target_embedding.before(ids_BT))

    def _encode_source(self, inputs, seed=None):
        keep_BS = self.source_embedding.keep(inputs)
        x_BSD = self.timing(self.source_embedding(inputs, seed=seed))
        middle = (len(self.encoder) + 1) // 2
        for module in self.encoder[:middle]:
            x_BSD = module(x_BSD, keep_BS, seed=seed)
        x_BSD = self.encoder_experts(x_BSD, keep_BS, seed=seed)
        for module in self.encoder[middle:]:
            x_BSD = module(x_BSD, keep_BS, seed=seed)
        return x_BSD, keep_BS

    @property
    def _blocks(self) -> Sequence["Mixer | AttentionBlock"]:
        return (self.mixer, *self.decoder)

    @property
    def _middle(self) -> int:
        """After which of `_blocks` the decoder's experts stand, counted from 0."""
        return (len(self.decoder) + 1) // 2

    def _memories(self, source_BSD, keep_BS) -> tuple[Memory, ...]:
        return tuple(block.attention.memory(source_BSD, keep_BS) for block in self._blocks)

    def _decode(self, x_BTD, keep_BT, memories: Sequence[Memory], seed=None):
        for i, (block_, memory) in enumerate(zip(self._blocks, memories, strict=True)):
            x_BTD = block_(x_BTD, memory, is_single=not self.autoregressive, seed=seed)
            if i == self._middle:
                x_BTD = self.decoder_experts(x_BTD, keep_BT, seed=seed)
        return x_BTD

    def encode(self, features: dict[str, Any]) -> tuple[Memory, ...]:
        """Returns the encoder's output as every attention block sees it."""
        return self._memories(*self._encode_source(features[INPUTS]))

    def init_cache(self, encoded: tuple[Memory, ...], rows: Any, length: Any, beams: int = 1) -> DecoderCache:
        """Returns what is before the first position: zeros, and no keys and values; see the base class."""
        heads = self.hparams.num_heads
        channels = (self.hparams.hidden_size // heads,) * 2
        attention = empty_cache(rows // beams, beams, heads, channels, len(self._blocks), length, self.compute_dtype)
        return DecoderCache(tuple(block_.empty(rows) for block_ in self._blocks), attention)

    def decode_weights(self) -> tuple:
        """Returns, of each attention block, the weights of its own queries, keys and values as one matrix."""
        return tuple(block_.attention.self_attention.fused_weights() for block_ in self._blocks)

    def step(self, ids_N, position, cache: DecoderCache, prepared: DecodeContext):
        """Returns (N, D) and what the next position needs; see the base class."""
        x_N1D = self._before(ids_N[:, None], position)
        kind, ancestors = type(cache.attention), set_own_position(cache.attention, position)
        windows, layers = [], []
        for i, block_ in enumerate(self._blocks):
            attention_source = AttentionSource(
                prepared.encoded[i], cache.attention.layers[i], ancestors, kind, prepared.weights[i]
            )
            x_N1D, cached, written = block_.step(x_N1D, position, cache.windows[i], attention_source)
            windows.append(cached)
            layers.append(written)
            if i == self._middle:
                x_N1D = self.decoder_experts(x_N1D, None)
        return x_N1D[:, 0], DecoderCache(tuple(windows), kind(tuple(layers), ancestors))

    def reorder_cache(self, cache: DecoderCache, beams: Any) -> DecoderCache:
        """Returns the cache after each beam went on from another; keys and values stay where they are."""
        return DecoderCache(reorder_rows(cache.windows, beams), reorder_ancestors(cache.attention, beams))


def block(hparams: MultiModelHParams, causal: bool, name: str, dtype) -> ConvModule:
    """Returns a convolutional block (section 2.1), which is the module of SliceNet."""
    steps = [StepSettings(*pair, Separability()) for pair in zip(hparams.kernel_sizes, hparams.dilations, strict=True)]
    return ConvModule(hparams.hidden_size, steps, causal, hparams.dropout, name=name, dtype=dtype)


class ExpertBlock(keras.layers.Layer):
    """x + Dropout(MoE(LN(x))) (section 2.3).

    The paper has no normalisation here, but the sums that leave blocks are of any size, and gates that read large ones
    are as good as decided: no noise changes them, and no gradient.
    """

    def __init__(self, hparams: MultiModelHParams, **kwargs):
        super().__init__(**kwargs)
        policy = self.dtype_policy
        chosen = (hparams.num_experts, hparams.experts_per_token, hparams.expert_balance)
        self.experts = Experts(
            hparams.hidden_size, hparams.filter_size, *chosen, "relu", 0.0, dtype=policy, name="experts"
        )
        self.residual = Residual("pre", EPSILON, hparams.dropout, dtype=policy, name="residual")

    def build(self, input_shape):
        """Builds the parts for (B, T, D)."""
        self.experts.build(input_shape)
        self.residual.build(input_shape)

    def call(self, x_BTD, keep_BT, seed=None):
        """Returns (B, T, D); positions where `keep_BT` (B, T) bool is False count for no balance."""
        return self.residual(x_BTD, sublayer=lambda x: self.experts(x, seed=seed, keep_BT=keep_BT), seed=seed)


class AttentionBlock(keras.layers.Layer):
    """ConvBlock(x) + Attention(source, x): a block of convolutions and attention, as in SliceNet."""

    def __init__(self, hparams: MultiModelHParams, attends_itself: bool, **kwargs):
        super().__init__(**kwargs)
        policy = self.dtype_policy
        self.block = block(hparams, causal=True, name="block", dtype=policy)
        self.attention = MultiAttention(
            hparams.hidden_size, hparams.num_heads, attends_itself, dtype=policy, name="attention"
        )

    def build(self, input_shape):
        """Builds the parts for (B, T, D)."""
        self.block.build(input_shape)
        self.attention.build(input_shape)

    def call(self, x_BTD, memory: Memory, is_single: bool, seed=None):
        """Returns (B, T, D)."""
        return self.block(x_BTD, seed=seed) + self.attention(x_BTD, memory, is_single=is_single)

    def empty(self, rows) -> tuple:
        """Returns what windows reach before the first position."""
        return self.block.empty(rows), self.attention.empty(rows)

    def step(self, x_N1D, position, pasts: tuple, attention_source: AttentionSource):
        """Returns one position (N, 1, D), what the windows of the next reach, and its keys and values."""
        y, cached = self.block.step(x_N1D, pasts[0])
        found, attention, written = self.attention.step(x_N1D, position, pasts[1], attention_source)
        return y + found, (cached, attention), written


class Mixer(keras.layers.Layer):
    """ConvBlock(ConvBlock(x + Attention(source, x))): it mixes the encoded inputs with the outputs before."""

    def __init__(self, hparams: MultiModelHParams, attends_itself: bool, **kwargs):
        super().__init__(**kwargs)
        policy = self.dtype_policy
        self.attention = MultiAttention(
            hparams.hidden_size, hparams.num_heads, attends_itself, dtype=policy, name="attention"
        )
        self.blocks = [block(hparams, causal=True, name=f"block_{i}", dtype=policy) for i in range(2)]

    def build(self, input_shape):
        """Builds the parts for (B, T, D)."""
        for part in (self.attention, *self.blocks):
            part.build(input_shape)

    def call(self, x_BTD, memory: Memory, is_single: bool, seed=None):
        """Returns (B, T, D)."""
        x_BTD = x_BTD + self.attention(x_BTD, memory, is_single=is_single)
        for module in self.blocks:
            x_BTD = module(x_BTD, seed=seed)
        return x_BTD

    def empty(self, rows) -> tuple:
        """Returns what windows reach before the first position."""
        return self.attention.empty(rows), *(module.empty(rows) for module in self.blocks)

    def step(self, x_N1D, position, pasts: tuple, attention_source: AttentionSource):
        """Returns one position (N, 1, D), what the windows of the next reach, and its keys and values."""
        found, attention, written = self.attention.step(x_N1D, position, pasts[0], attention_source)
        x_N1D, after = x_N1D + found, [attention]
        for module, past in zip(self.blocks, pasts[1:], strict=True):
            x_N1D, cached = module.step(x_N1D, past)
            after.append(cached)
        return x_N1D, tuple(after), written
