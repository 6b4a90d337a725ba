"""The MultiModel, in the order of section 2 of Kaiser et al., *One Model To Learn Them All* (2017, arXiv:1706.05137).

This file has the attention blocks (section 2.2) and encoder, mixer and decoder (section 2.4). Convolutional blocks
(section 2.1), mixtures of experts (section 2.3) and modalities (section 2.5) are layers that other models have, too.

Legend: B batch, S source length, T target length, D width, H heads, N rows decoded together.
"""

from typing import Any, NamedTuple

from keras import ops

from t2t.hparams.multi_model import MultiModelHParams
from t2t.layers.attention import MultiHeadAttention
from t2t.layers.cache import KeysValues, StepCache
from t2t.layers.feed_forward import Experts
from t2t.layers.masks import CAUSAL, keys_keep
from t2t.layers.mode import Costs, in_mode, with_costs
from t2t.layers.norm import EPSILON
from t2t.layers.positions import SinusoidalPositions
from t2t.layers.residual import CompositeLayer, Residual
from t2t.layers.separable_convolution import ConvModule, MixedTarget, Separability
from t2t.layers.tensors import Features, Tensor
from t2t.models.base import READ_AS_VECTORS, EncoderDecoder
from t2t.registry import register_model
from t2t.specs import INPUTS
from t2t.specs.features import FeatureKind, ProblemSpec


class BlockMemory(NamedTuple):
    """An encoded source, as a block attends to it."""

    source: KeysValues
    """(B, H, S, D / H) each."""
    keep: Tensor
    """(B, S) bool, True at data."""


class MultiAttention(MixedTarget):
    """SliceNet's block, extended: two steps mix the target, which attends to itself and then to a source.

    m = ConvStep(ConvStep(target + timing)),  q = m + SelfAttention(m),  Attention(q, K source, V source)

    Windows and self-attention are causal. For targets of one position (`is_single`, always without `attends_itself`),
    q = m.
    """

    def __init__(self, width: int, heads: int, attends_itself: bool, **kwargs):
        super().__init__(width, [Separability()] * 2, **kwargs)
        policy, channels = self.dtype_policy, (width, heads, width, width, 0.0, False)
        self.self_attention: Any = None
        if attends_itself:
            self.self_attention = MultiHeadAttention(*channels, span=CAUSAL, dtype=policy, name="self_attention")
        self.source_attention = MultiHeadAttention(*channels, dtype=policy, name="source_attention")

    def memory(self, source_BSD, keep_BS) -> BlockMemory:
        """Returns the source (B, S, D) as keys and values, each by a pointwise convolution."""
        return BlockMemory(self.source_attention.keys_values(source_BSD), keep_BS)

    def call(self, x, memory: BlockMemory, is_single: bool = False, cache: StepCache | None = None):
        """Returns the output of attention to the source, (B, T, D), or with a cache (N, D).

        `is_single`: targets have only one position.
        """
        mixed = self.mixed(x, cache=cache)
        if not is_single:
            mixed = mixed + self.self_attention(mixed, cache=cache)
        return self.source_attention(mixed, memory=memory.source, keep=keys_keep(memory.keep), cache=cache)


@register_model
class MultiModel(EncoderDecoder):
    """One Model To Learn Them All: convolutions, attention and mixtures of experts, for problems of several kinds."""

    hparams_class = MultiModelHParams
    accepts_inputs = READ_AS_VECTORS
    accepts_targets = (FeatureKind.TOKENS, FeatureKind.LABEL)
    has_command = True

    def __init__(self, hparams: MultiModelHParams, spec: ProblemSpec, dtype: str = "float32", **kwargs):
        super().__init__(hparams, spec, dtype, **kwargs)
        given = {"hparams": hparams, "dtype": self.dtype_policy}
        self.timing = SinusoidalPositions(hparams.hidden_size, dtype=self.dtype_policy, name="timing")
        self.encoder = [
            build_block(name=f"encoder_{i}", causal=False, **given) for i in range(hparams.num_hidden_layers)
        ]
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
        """Returns whether the model predicts targets one by one: tokens yes, classes no."""
        return any(member.targets.kind == FeatureKind.TOKENS for member in spec.members or [spec])

    def body(self, features: Features, seed=None):
        """Returns the decoder's output, (B, T, D), or (B, D) for a class, as `Costed`; see the base class."""
        if self.autoregressive:
            return super().body(features, seed=seed)
        costs = Costs()
        with in_mode(costs=costs):
            encoded = self.encode(features, seed=seed)
            # A class has one position, whose input is only the command.
            x_B1D = ops.broadcast_to(self._command(), (ops.shape(encoded[0].keep)[0], 1, self.hparams.hidden_size))
            x_B1D = self._run_decoder(x_B1D, encoded, seed=seed)
        return with_costs(x_B1D[:, 0], costs)

    def encode(self, features: Features, seed=None) -> tuple[BlockMemory, ...]:
        """Returns the encoder's output for every attention block."""
        keep_BS = self.source_embedding.keep(features[INPUTS])
        x_BSD = self.timing(self.source_embedding(features[INPUTS], seed=seed))
        middle = (len(self.encoder) + 1) // 2
        for module in self.encoder[:middle]:
            x_BSD = module(x_BSD, keep_BS, seed=seed)
        x_BSD = self.encoder_experts(x_BSD, keep_BS, seed=seed)
        for module in self.encoder[middle:]:
            x_BSD = module(x_BSD, keep_BS, seed=seed)
        return tuple(block.attention.memory(x_BSD, keep_BS) for block in self._decoder_blocks)

    def decode(self, ids, encoded: tuple[BlockMemory, ...], keep_BT=None, cache: StepCache | None = None, seed=None):
        """Returns the decoder's output after `ids`; the input of the first position is the problem's command."""
        position_T = ops.arange(ops.shape(ids)[1]) if cache is None else ops.reshape(cache.position, (1,))
        x = ops.where(ops.equal(position_T, 0)[:, None], self._command(), self.target_embedding.before(ids, seed=seed))
        return self._run_decoder(x, encoded, keep_BT, cache, seed)

    @property
    def _decoder_blocks(self) -> "list[Mixer | AttentionBlock]":
        return [self.mixer, *self.decoder]

    def _command(self):
        return ops.cast(ops.convert_to_tensor(self.command.vector), self.compute_dtype)

    def _run_decoder(
        self, x, encoded: tuple[BlockMemory, ...], keep_BT=None, cache: StepCache | None = None, seed=None
    ):
        middle = (len(self.decoder) + 1) // 2
        for i, (block, memory) in enumerate(zip(self._decoder_blocks, encoded, strict=True)):
            x = block(x, memory, is_single=not self.autoregressive, cache=cache, seed=seed)
            if i == middle:
                x = self.decoder_experts(x, keep_BT, seed=seed)
        return x


def build_block(hparams: MultiModelHParams, causal: bool, name: str, dtype) -> ConvModule:
    """Returns a convolutional block (section 2.1), which is the module of SliceNet."""
    steps = [(*pair, Separability()) for pair in zip(hparams.kernel_sizes, hparams.dilations, strict=True)]
    return ConvModule(hparams.hidden_size, steps, causal, hparams.dropout, name=name, dtype=dtype)


class ExpertBlock(CompositeLayer):
    """x + Dropout(MoE(LN(x))) (section 2.3).

    The paper has no normalisation here, but the outputs of blocks can be arbitrarily large, and gates that read large
    values are practically fixed: neither noise nor gradients change them.
    """

    def __init__(self, hparams: MultiModelHParams, **kwargs):
        super().__init__(**kwargs)
        policy = self.dtype_policy
        chosen = (hparams.num_experts, hparams.experts_per_token, hparams.expert_balance)
        experts = Experts(hparams.hidden_size, hparams.filter_size, *chosen, "relu", 0.0, dtype=policy, name="experts")
        self.residual = Residual(experts, "pre", EPSILON, hparams.dropout, dtype=policy, name="residual")

    def call(self, x_BTD, keep_BT, seed=None):
        """Returns (B, T, D); positions where `keep_BT` (B, T) bool is False do not count in the cost."""
        return self.residual(x_BTD, keep_BT=keep_BT, seed=seed)


class AttentionBlock(CompositeLayer):
    """ConvBlock(x) + Attention(source, x): a block of convolutions and attention, as in SliceNet."""

    def __init__(self, hparams: MultiModelHParams, attends_itself: bool, **kwargs):
        super().__init__(**kwargs)
        policy = self.dtype_policy
        self.block = build_block(hparams, causal=True, name="block", dtype=policy)
        sizes = (hparams.hidden_size, hparams.num_heads)
        self.attention = MultiAttention(*sizes, attends_itself, dtype=policy, name="attention")

    def call(self, x, memory: BlockMemory, is_single: bool, cache: StepCache | None = None, seed=None):
        """Returns (B, T, D), or with a cache (N, D)."""
        return self.block(x, cache=cache, seed=seed) + self.attention(x, memory, is_single=is_single, cache=cache)


class Mixer(CompositeLayer):
    """ConvBlock(ConvBlock(x + Attention(source, x))): mixes the encoded inputs with the previous outputs."""

    def __init__(self, hparams: MultiModelHParams, attends_itself: bool, **kwargs):
        super().__init__(**kwargs)
        policy, sizes = self.dtype_policy, (hparams.hidden_size, hparams.num_heads)
        self.attention = MultiAttention(*sizes, attends_itself, dtype=policy, name="attention")
        self.blocks = [build_block(hparams, causal=True, name=f"block_{i}", dtype=policy) for i in range(2)]

    def call(self, x, memory: BlockMemory, is_single: bool, cache: StepCache | None = None, seed=None):
        """Returns (B, T, D), or with a cache (N, D)."""
        x = x + self.attention(x, memory, is_single=is_single, cache=cache)
        for module in self.blocks:
            x = module(x, cache=cache, seed=seed)
        return x
