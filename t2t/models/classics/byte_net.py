"""ByteNet, its decoder alone as a language model, and recurrent networks on top of its encoder.

Source of the values and of the networks, unless a line says otherwise: Kalchbrenner et al., *Neural Machine Translation
in Linear Time* (2016, arXiv:1610.10099v2), sections 3, 5 and 6. Layer normalisation precedes each activation (section
3.6). The recurrent networks are two rows of the paper's table 1, an RNN on top of ByteNet's convolutions and one on top
of an RNN. The paper gives no sizes for them: they have large sets of that time, and small ones.

Legend: B batch, S source length, U length of its representation, T target length, D width of the residual stream, I
inner width, N rows decoded together.
"""

from dataclasses import dataclass

from t2t.hparams.base import HParams, adam_rate, for_copying, for_multi30k
from t2t.hparams.field import UsedWhen, param, redeclared, training_fraction
from t2t.hparams.lstm import DirectedHParams, for_recurrent
from t2t.registry import register_hparams


@dataclass(kw_only=True)
class UnfoldingHParams(HParams):
    """Length a n + b over which the target is unfolded, n being the length of the source."""

    unfolding_factor: float = param(
        1.2, "Factor a of the unfolded length a n + b, n being the length of the source.", minimum=1.0
    )
    unfolding_offset: int = param(
        0, "Offset b of the unfolded length a n + b, n being the length of the source.", minimum=0
    )


@dataclass(kw_only=True)
class DilatedHParams(UnfoldingHParams):
    """Stacks of num_hidden_layers blocks of dilated convolutions."""

    block: str = param(
        "relu", "Residual block: relu or multiplicative, the paper's, each block with the next of the dilations; "
        "cascade, Tensor2Tensor's, each block with all of them.", choices=("relu", "multiplicative", "cascade"),
    )  # fmt: skip
    kernel_size: int = param(3, "Kernel size of the convolutions, in positions.", minimum=2, only_shapes=True)
    dilations: tuple[int, ...] = param((1, 2, 4, 8, 16), "Dilations of successive blocks, repeated in turn.")
    dropout: float = training_fraction(0.0, "Dropout rate on the residual branch of each block, a fraction.")

    def complaints(self) -> list[str]:
        """Checks that hidden_size is even, since inner channels are half of it, and that dilations are at least 1."""
        found = []
        if self.block != "cascade" and self.hidden_size % 2:
            found.append(f"hparam hidden_size={self.hidden_size} is odd; block={self.block} has half inside")
        if not self.dilations or min(self.dilations) < 1:
            found.append(f"hparam dilations={self.dilations}: give one or more, each 1 or more")
        return found


@dataclass(kw_only=True)
class ByteNetHParams(DilatedHParams):
    """Two stacks of dilated convolutions, the decoder on top of the encoder, or only the decoder."""

    output_dropout: float = training_fraction(0.0, "Dropout rate on the input of the output layer, a fraction.")


@register_hparams
def byte_net() -> ByteNetHParams:
    """The paper's translation model: 30+30 ReLU blocks of 2d = 1600 channels, dilations 1 to 16, a = 1.2."""
    return ByteNetHParams(
        hidden_size=1600,
        num_hidden_layers=30,
        label_smoothing=0.0,
        max_length=600,  # characters
        optimizer_adam_beta2=0.999,
        optimizer_adam_epsilon=1e-8,
        learning_rate_schedule="constant",
        learning_rate=0.0003,
        learning_rate_warmup_steps=0,
        beam_size=12,
    )


@register_hparams
def byte_net_multiplicative() -> ByteNetHParams:
    """The paper's model with the blocks of its language model: 30+30 of 2d = 1024 channels, multiplicative units."""
    return byte_net().replace(block="multiplicative", hidden_size=1024)


@register_hparams
def bytenet_base() -> ByteNetHParams:
    """Tensor2Tensor's variant: 4+4 cascades of dilations 1 to 8, 768 channels, a = 1.5, dropout 0.2."""
    return byte_net().replace(
        block="cascade",
        hidden_size=768,
        num_hidden_layers=4,
        dilations=(1, 2, 4, 8),
        unfolding_factor=1.5,
        dropout=0.2,
        label_smoothing=0.1,
        max_length=256,
        batch_size=2048,
        optimizer_adam_beta1=0.85,
        optimizer_adam_beta2=0.997,
        optimizer_adam_epsilon=1e-6,
        clip_grad_norm=2.0,
        # Its decay is exponential, by a factor of 1; its warm-up is exponential, and linear here.
        learning_rate_schedule="constant",
        learning_rate=adam_rate(0.05),
        learning_rate_warmup_steps=3000,
        beam_size=4,
    )


@register_hparams
def byte_net_multi30k_tiny() -> ByteNetHParams:
    """For Multi30k, as large as transformer_multi30k_tiny: 5+5 ReLU blocks of 192 channels, dropout 0.3."""
    return for_multi30k(byte_net()).replace(
        hidden_size=192,
        num_hidden_layers=5,
        dropout=0.3,
        learning_rate=0.003,
        learning_rate_warmup_steps=500,
        clip_grad_norm=1.0,
    )


@register_hparams
def byte_net_tiny() -> ByteNetHParams:
    """Learns to copy sequences in a minute on two processor cores: 5+5 ReLU blocks of 64 channels."""
    return for_copying(byte_net()).replace(hidden_size=64, num_hidden_layers=5)


@register_hparams
def byte_net_lm() -> ByteNetHParams:
    """The paper's language model of characters: 30 multiplicative blocks of 2d = 1024 channels, weight decay."""
    return byte_net_multiplicative().replace(
        output_dropout=0.1,  # on the last ReLU (section 5)
        optimizer="adamw",
        weight_decay=0.0001,
        max_length=500,
    )


@register_hparams
def byte_net_lm_tiny() -> ByteNetHParams:
    """A language model of minutes on two processor cores: 10 multiplicative blocks of 128 channels."""
    return byte_net_lm().replace(
        hidden_size=128,
        num_hidden_layers=10,
        learning_rate=0.002,
        learning_rate_warmup_steps=100,
        clip_grad_norm=1.0,
        train_steps=2000,
    )


_RECURRENT, _CONVOLUTIONAL = (UsedWhen("encoder", (kind,)) for kind in ("recurrent", "convolutional"))


@dataclass(kw_only=True)
class RecurrentByteNetHParams(DirectedHParams, DilatedHParams):
    """An encoder of num_hidden_layers recurrent layers or convolutional blocks, and a recurrent decoder."""

    encoder: str = param(
        "recurrent", "Encoder: recurrent layers, or convolutional with the blocks of ByteNet.",
        choices=("recurrent", "convolutional"),
    )  # fmt: skip
    encoder_direction: str = redeclared(DirectedHParams, "encoder_direction", used_when=_RECURRENT)
    block: str = redeclared(DilatedHParams, "block", used_when=_CONVOLUTIONAL)
    kernel_size: int = redeclared(DilatedHParams, "kernel_size", used_when=_CONVOLUTIONAL)
    dilations: tuple[int, ...] = redeclared(DilatedHParams, "dilations", used_when=_CONVOLUTIONAL)
    num_decoder_layers: int = param(
        2, "Number of decoder layers; the encoder has num_hidden_layers.", minimum=1, only_shapes=True
    )
    dropout: float = training_fraction(
        0.2, "Dropout rate on inputs of recurrent layers, residual branches of blocks and the last output, a fraction."
    )

    def complaints(self) -> list[str]:
        """Applies the checks of the chosen kind of encoder."""
        return (DilatedHParams if self.encoder == "convolutional" else DirectedHParams).complaints(self)


@register_hparams
def recurrent_byte_net() -> RecurrentByteNetHParams:
    """An RNN on top of an RNN: 4+4 layers of 1,000 units, the encoder's in both directions, for characters."""
    # The sizes of Sutskever et al. (2014).
    sizes = RecurrentByteNetHParams(hidden_size=1000, num_hidden_layers=4, num_decoder_layers=4)
    return _for_characters(sizes).replace(encoder_direction="bidirectional")


@register_hparams
def recurrent_byte_net_convolutional() -> RecurrentByteNetHParams:
    """An RNN of 4 layers on top of the encoder of byte_net, 30 blocks of 1,600 channels, for characters."""
    sizes = RecurrentByteNetHParams(hidden_size=1600, num_hidden_layers=30, num_decoder_layers=4)
    return _for_characters(sizes).replace(encoder="convolutional")


@register_hparams
def recurrent_byte_net_multi30k_tiny() -> RecurrentByteNetHParams:
    """For Multi30k, as large as transformer_multi30k_tiny: 2+2 layers of 176 units, dropout 0.3."""
    return _multi30k(recurrent_byte_net()).replace(num_hidden_layers=2)


@register_hparams
def recurrent_byte_net_convolutional_multi30k_tiny() -> RecurrentByteNetHParams:
    """For Multi30k: 5 blocks of 176 channels, 2 layers of 176 units on top of them, dropout 0.3."""
    return _multi30k(recurrent_byte_net_convolutional()).replace(num_hidden_layers=5)


@register_hparams
def recurrent_byte_net_tiny() -> RecurrentByteNetHParams:
    """Learns to copy sequences in a minute on two processor cores: a layer of 64 units that reads, one that writes."""
    sizes = {"hidden_size": 64, "num_hidden_layers": 1, "num_decoder_layers": 1}
    return for_copying(recurrent_byte_net()).replace(**sizes, learning_rate=0.01)


def _for_characters(hparams: RecurrentByteNetHParams) -> RecurrentByteNetHParams:
    """Returns the set with the training recipe of the recurrent models and byte_net's lengths, in characters."""
    return for_recurrent(hparams).replace(
        label_smoothing=0.0, learning_rate=0.0005, max_length=byte_net().max_length, beam_size=byte_net().beam_size
    )


def _multi30k(hparams: RecurrentByteNetHParams) -> RecurrentByteNetHParams:
    sizes = {"hidden_size": 176, "num_decoder_layers": 2}
    return for_multi30k(hparams).replace(**sizes, dropout=0.3, learning_rate=0.003, learning_rate_warmup_steps=500)


# === The network ===
from collections.abc import Sequence
from typing import Any, ClassVar

import keras
from keras import ops

from t2t.layers.cache import StepCache
from t2t.layers.convolution import Convolution, columns, unfolded
from t2t.layers.dropout import Dropout
from t2t.layers.norm import LayerNorm
from t2t.layers.recurrent import RecurrentEncoder
from t2t.layers.recurrent_decoder import CachedRecurrence
from t2t.layers.residual import CompositeLayer, build_all
from t2t.layers.tensors import Features
from t2t.models.base import READ_AS_VECTORS, EncoderDecoder
from t2t.registry import register_model
from t2t.specs import INPUTS
from t2t.specs.features import FeatureKind, ProblemSpec


class NormedConvolution(CompositeLayer):
    """Conv(ReLU(LN(x))), with the arguments of `Convolution`."""

    def __init__(self, channels: int, kernel_size: int, *, name: str, dtype=None, **window):
        super().__init__(name=name, dtype=dtype)
        self.norm = LayerNorm(dtype=self.dtype_policy, name="norm")
        self.convolution = Convolution(channels, kernel_size, dtype=self.dtype_policy, name="convolution", **window)
        self.channels, self.reach = channels, self.convolution.reach

    def call(self, x, keep_BT=None, cache: StepCache | None = None):
        """Returns (B, T, channels), or with a cache (N, channels); windows read zeros where `keep_BT` is False."""
        return self.convolution(ops.relu(self.norm(x)), keep_BT, cache=cache)


class MultiplicativeUnit(CompositeLayer):
    """MU(h) = g_1 * tanh(g_2 * h + g_3 * u) (Kalchbrenner et al. 2016, *Video Pixel Networks*, section 4.1).

    The gates g_i = sigmoid(LN(W_i h)) and the update u = tanh(LN(W_4 h)) read windows of h. h and the output have I
    `channels`; the other arguments are those of `Convolution`.
    """

    def __init__(self, channels: int, kernel_size: int, *, name: str, dtype=None, **window):
        super().__init__(name=name, dtype=dtype)
        policy = self.dtype_policy
        self.convolution = Convolution(4 * channels, kernel_size, dtype=policy, name="convolution", **window)
        self.channels, self.reach = channels, self.convolution.reach
        self.norms = [LayerNorm(dtype=policy, name=f"norm_{i}") for i in range(4)]

    def call(self, h, keep_BT=None, cache: StepCache | None = None):
        """Returns (B, T, I), or with a cache (N, I); windows read zeros where `keep_BT` (B, T) bool is False."""
        gates = ops.split(self.convolution(h, keep_BT, cache=cache), 4, axis=-1)
        parts = [norm(part) for norm, part in zip(self.norms, gates, strict=True)]
        (g_1, g_2, g_3), u = (ops.sigmoid(part) for part in parts[:3]), ops.tanh(parts[3])
        return g_1 * ops.tanh(g_2 * h + g_3 * u)


class DilatedBlock(keras.layers.Layer):
    """x + Dropout(f(x)), where f is a chain of layers, some with windows, and a final norm if `normed`."""

    def __init__(self, chain: Sequence[NormedConvolution | MultiplicativeUnit], dropout: float, normed: bool, **kwargs):
        super().__init__(**kwargs)
        self.chain = list(chain)
        self.norm = LayerNorm(dtype=self.dtype_policy, name="norm") if normed else None
        self.dropout = Dropout(dropout, dtype=self.dtype_policy, name="dropout")

    def build(self, input_shape):
        """Builds the layers for (B, T, D)."""
        for layer in self.chain:
            layer.build(input_shape)
            input_shape = (*input_shape[:-1], layer.channels)
        if self.norm is not None:
            self.norm.build(input_shape)
        self.dropout.build()

    def call(self, x, keep_BT=None, cache: StepCache | None = None, seed=None):
        """Returns (B, T, D), or with a cache (N, D); windows read zeros where `keep_BT` (B, T) bool is False."""
        y = x
        for layer in self.chain:
            y = layer(y, keep_BT if layer.reach else None, cache=cache)
        return x + self.dropout(y if self.norm is None else self.norm(y), seed=seed)


def bottleneck(
    width: int, kernel_size: int, dilation: int, causal: bool, multiplicative: bool, dropout: float, dtype=None,
    **kwargs,
) -> DilatedBlock:  # fmt: skip
    """Returns the paper's block (figure 3): from D to half as many channels, a layer with a window, and back to D.

    That layer is a multiplicative unit (right of the figure) or a convolution (left).
    """
    middle, inner = MultiplicativeUnit if multiplicative else NormedConvolution, width // 2
    chain = (
        NormedConvolution(inner, 1, dtype=dtype, name="narrow"),
        middle(inner, kernel_size, dilation=dilation, causal=causal, dtype=dtype, name="window"),
        NormedConvolution(width, 1, dtype=dtype, name="wide"),
    )
    return DilatedBlock(chain, dropout, normed=False, dtype=dtype, **kwargs)


def cascade(
    width: int, kernel_size: int, dilations: Sequence[int], causal: bool, dropout: float, dtype=None, **kwargs
) -> DilatedBlock:
    """Returns Tensor2Tensor's block: a sequence of convolutions of D channels with rising dilations, and a norm."""
    window = {"causal": causal, "use_bias": False, "dtype": dtype}
    chain = [
        NormedConvolution(width, kernel_size, dilation=dilation, name=f"window_{i}", **window)
        for i, dilation in enumerate(dilations)
    ]
    return DilatedBlock(chain, dropout, normed=True, dtype=dtype, **kwargs)


@register_model
class ByteNet(EncoderDecoder):
    """Neural Machine Translation in Linear Time: dilated convolutions, the decoder's on top of the encoder's."""

    hparams_class = ByteNetHParams
    accepts_inputs: ClassVar[tuple[FeatureKind | None, ...]] = READ_AS_VECTORS

    def __init__(self, hparams: ByteNetHParams, spec: ProblemSpec, dtype: str = "float32", **kwargs):
        super().__init__(hparams, spec, dtype, **kwargs)
        policy, width = self.dtype_policy, hparams.hidden_size
        self.encoder: DilatedStack | None = None
        self.join: Convolution | None = None
        if spec.inputs:
            self.encoder = DilatedStack(hparams, causal=False, dtype=policy, name="encoder")
            self.join = Convolution(width, hparams.kernel_size, causal=True, dtype=policy, name="join")
        self.decoder = DilatedStack(hparams, causal=True, dtype=policy, name="decoder")
        self.output_map: Convolution | None = None
        self.output_norm: Any = None
        if hparams.block != "cascade":
            self.output_map = Convolution(width, 1, dtype=policy, name="output_map")
            self.output_norm = LayerNorm(dtype=policy, name="output_norm")
        self.output_dropout = Dropout(hparams.output_dropout, dtype=policy, name="output_dropout")
        self.build()

    def build(self, input_shape=None):
        """Creates every weight."""
        self.build_modality_weights()
        hidden = (None, None, self.hparams.hidden_size)
        build_all((self.encoder,), hidden)
        build_all((self.join,), (None, None, 2 * self.hparams.hidden_size))
        build_all((self.decoder, self.output_map, self.output_norm, self.output_dropout), hidden)

    def encode(self, features: Features, seed=None):
        """Returns the representation of the source (B, U, D), zeros beyond its own end; None without inputs."""
        if self.encoder is None:
            return None
        inputs = features[INPUTS]
        x_BSD, keep_BS = self.source_embedding(inputs, seed=seed), self.source_embedding.keep(inputs)
        x_BUD, keep_BU = unfolded(x_BSD, keep_BS, self.hparams.unfolding_factor, self.hparams.unfolding_offset)
        x_BUD = self.encoder(x_BUD, keep_BU, seed=seed)
        return x_BUD * ops.cast(keep_BU, x_BUD.dtype)[..., None]

    def decode(self, ids, encoded, keep_BT=None, cache: StepCache | None = None, seed=None):
        """Returns the decoder's output after `ids`; see the base class."""
        x = self.target_embedding.before(ids, seed=seed)
        if self.join is not None:
            x = self.join(ops.concatenate([columns(encoded, ids, cache), x], axis=-1), cache=cache)
        x = self.decoder(x, cache=cache, seed=seed)
        if self.output_map is not None:
            # One more convolution and ReLU after the blocks; the last convolution is the output layer (section 3.6).
            x = ops.relu(self.output_norm(self.output_map(x, cache=cache)))
        return self.output_dropout(x, seed=seed)


class DilatedStack(CompositeLayer):
    """Residual blocks and, since nothing normalises their sum, a norm."""

    def __init__(self, hparams: DilatedHParams, causal: bool, **kwargs):
        super().__init__(**kwargs)
        self.blocks = [
            _block(hparams, i, causal, dtype=self.dtype_policy, name=f"block_{i}")
            for i in range(hparams.num_hidden_layers)
        ]
        self.norm = LayerNorm(dtype=self.dtype_policy, name="norm")

    def call(self, x, keep_BT=None, cache: StepCache | None = None, seed=None):
        """Returns (B, T, D), or with a cache (N, D); windows read zeros where `keep_BT` (B, T) bool is False."""
        for block in self.blocks:
            x = block(x, keep_BT, cache=cache, seed=seed)
        return self.norm(x)


def _block(hparams: DilatedHParams, i: int, causal: bool, **kwargs):
    width, size, dilations = hparams.hidden_size, hparams.kernel_size, hparams.dilations
    if hparams.block == "cascade":
        return cascade(width, size, dilations, causal, hparams.dropout, **kwargs)
    multiplicative, dilation = hparams.block == "multiplicative", dilations[i % len(dilations)]
    return bottleneck(width, size, dilation, causal, multiplicative, hparams.dropout, **kwargs)


@register_model
class ByteNetLm(ByteNet):
    """A language model: ByteNet's decoder alone, for characters or other tokens, without inputs."""

    hparams_class = ByteNetHParams
    accepts_inputs = (None,)

    @classmethod
    def unread_hparams(cls, spec: ProblemSpec) -> dict[str, str]:
        """Adds those of the unfolding of inputs; see the base class."""
        why = f"model {cls.__name__} has no inputs to unfold"
        return super().unread_hparams(spec) | dict.fromkeys(("unfolding_factor", "unfolding_offset"), why)


@register_model
class RecurrentByteNet(EncoderDecoder):
    """Recurrent ByteNet: an RNN that reads a column of the source with each word, from an RNN or convolutions."""

    hparams_class = RecurrentByteNetHParams
    compiles_with_xla = False
    accepts_inputs = READ_AS_VECTORS

    def __init__(self, hparams: RecurrentByteNetHParams, spec: ProblemSpec, dtype: str = "float32", **kwargs):
        super().__init__(hparams, spec, dtype, **kwargs)
        cell, policy = (hparams.cell, hparams.hidden_size), self.dtype_policy
        self.encoder: RecurrentEncoder | DilatedStack
        if hparams.encoder == "convolutional":
            self.encoder = DilatedStack(hparams, causal=False, dtype=policy, name="encoder")
        else:
            depth, direction = hparams.num_hidden_layers, hparams.encoder_direction
            self.encoder = RecurrentEncoder(*cell, depth, direction, hparams.dropout, dtype=policy, name="encoder")
        depth = hparams.num_decoder_layers
        self.decoder = CachedRecurrence(*cell, depth, hparams.dropout, dtype=policy, name="decoder")
        self.build()

    def build(self, input_shape=None):
        """Creates every weight."""
        self.build_modality_weights()
        width = self.hparams.hidden_size
        self.encoder.build((None, None, width))
        self.decoder.build((None, None, 2 * width))

    def encode(self, features: Features, seed=None):
        """Returns the representation of the source (B, U, D), zeros beyond its own end."""
        inputs = features[INPUTS]
        x_BSD, keep_BS = self.source_embedding(inputs, seed=seed), self.source_embedding.keep(inputs)
        x_BUD, keep_BU = unfolded(x_BSD, keep_BS, self.hparams.unfolding_factor, self.hparams.unfolding_offset)
        read = self.encoder(x_BUD, keep_BU, seed=seed)
        # A recurrent encoder also returns its last states, which this decoder does not use.
        x_BUD = read[0] if isinstance(self.encoder, RecurrentEncoder) else read
        return x_BUD * ops.cast(keep_BU, x_BUD.dtype)[..., None]

    def decode(self, ids, encoded, keep_BT=None, cache: StepCache | None = None, seed=None):
        """Returns the decoder's output after `ids`; see the base class."""
        x = ops.concatenate([columns(encoded, ids, cache), self.target_embedding.before(ids, seed=seed)], axis=-1)
        return self.decoder(x, cache=cache, seed=seed)
