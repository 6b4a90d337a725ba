"""Convolutional sequence to sequence learning, in the order of section 3 of Gehring et al. (2017, arXiv:1705.03122).

Source of the values, unless a line says otherwise: the paper's sections 4 and 5, and the first program that its authors
published; a later one has wider layers.

Legend: B batch, S source length, T target length, Q queries of a sentence, D width of embeddings, C channels of a
layer, N rows decoded together, N = B * Q.
"""

from dataclasses import dataclass

from t2t.hparams.base import HParams, for_copying, for_multi30k
from t2t.hparams.field import param, training_fraction
from t2t.registry import register_hparams


@dataclass(kw_only=True)
class ConvS2sHParams(HParams):
    """Encoder and decoder stacks of gated convolutions with the same layers."""

    layer_channels: tuple[int, ...] = param(
        (0,),
        "Channels of each layer, from the first; the last number applies to all further layers; 0 = hidden_size.",
        only_shapes=True,
    )
    kernel_sizes: tuple[int, ...] = param(
        (3,),
        "Kernel size of each layer, in positions, odd; the last number applies to all further layers.",
        only_shapes=True,
    )
    dropout: float = training_fraction(
        0.2, "Dropout rate on embeddings, inputs of convolutions and the decoder's output, a fraction."
    )

    def layers(self) -> list[tuple[int, int]]:
        """Returns (channels, kernel size) of each layer."""
        depth = range(self.num_hidden_layers)
        return [(_item(self.layer_channels, i) or self.hidden_size, _item(self.kernel_sizes, i)) for i in depth]

    def complaints(self) -> list[str]:
        """Checks that kernel sizes are odd, and that lists have between 1 and num_hidden_layers numbers."""
        found = []
        for name, values in (("layer_channels", self.layer_channels), ("kernel_sizes", self.kernel_sizes)):
            if not 1 <= len(values) <= self.num_hidden_layers:
                found.append(
                    f"hparam {name} has {len(values)} numbers for {self.num_hidden_layers} layers; give 1 or more, and "
                    "no more than num_hidden_layers"
                )
        found += [
            f"hparam kernel_sizes holds {size}; a window has an odd number of positions, 1 or more"
            for size in self.kernel_sizes
            if size < 1 or size % 2 == 0
        ]
        if any(channels < 0 for channels in self.layer_channels):
            found.append(f"hparam layer_channels={self.layer_channels}: channels are at least 1, or 0 for hidden_size")
        return found


def _item(values: tuple[int, ...], i: int) -> int:
    return values[min(i, len(values) - 1)]


@register_hparams
def conv_s2s() -> ConvS2sHParams:
    """The paper's model for English-Romanian: 20 layers of 512 channels, windows of 3, dropout 0.2."""
    return ConvS2sHParams(
        num_hidden_layers=20,
        max_length=1024,
        label_smoothing=0.0,
        # The paper's Nesterov momentum at 0.25 with gradients cut to 0.1 is cooled by the dev loss; Adam needs no such
        # care. Rate and betas are the Transformer's usual ones.
        batch_size=4000,
        optimizer_adam_epsilon=1e-8,
        learning_rate_schedule="inverse_sqrt",
        learning_rate=0.0005,
        learning_rate_warmup_steps=4000,
        clip_grad_norm=0.1,
        beam_size=5,
        alpha=1.0,
        length_penalty="power",
    )


@register_hparams
def conv_s2s_wmt_ende() -> ConvS2sHParams:
    """The paper's model for English-German: 15 layers, 10 of 512 channels, 3 of 768, 2 of 2048 without windows."""
    return conv_s2s().replace(
        num_hidden_layers=15, layer_channels=(512,) * 10 + (768,) * 3 + (2048,), kernel_sizes=(3,) * 13 + (1,)
    )


@register_hparams
def conv_s2s_wmt_enfr() -> ConvS2sHParams:
    """The paper's model for English-French: 14 layers from 512 to 4096 channels, the last 2 without windows."""
    # The paper says 15 layers, but lists 14, and only these see its 25 words.
    return conv_s2s().replace(
        num_hidden_layers=14,
        layer_channels=(512,) * 5 + (768,) * 4 + (1024,) * 3 + (2048, 4096),
        kernel_sizes=(3,) * 12 + (1,),
        dropout=0.1,
    )


@register_hparams
def conv_s2s_multi30k_tiny() -> ConvS2sHParams:
    """For Multi30k, as large as transformer_multi30k_tiny: 4+4 layers of 128 channels, dropout 0.3."""
    return for_multi30k(conv_s2s()).replace(
        hidden_size=128,
        num_hidden_layers=4,
        dropout=0.3,
        learning_rate=0.005,
        learning_rate_warmup_steps=500,
        clip_grad_norm=1.0,
    )


@register_hparams
def conv_s2s_tiny() -> ConvS2sHParams:
    """Learns to copy and reverse sequences in a minute on two processor cores: 2 layers of 64 channels."""
    return for_copying(conv_s2s()).replace(hidden_size=64, num_hidden_layers=2, train_steps=2000)


# === The network ===

import keras
from keras import ops

from t2t.layers.cache import StepCache
from t2t.layers.convolution import Convolution
from t2t.layers.dropout import Dropout
from t2t.layers.masks import float32_product, probabilities
from t2t.layers.mode import custom_gradient
from t2t.layers.positions import LearnedPositions
from t2t.layers.recurrent_decoder import Memory
from t2t.layers.residual import build_all
from t2t.layers.tensors import Features
from t2t.models.base import READ_AS_VECTORS, EncoderDecoder
from t2t.registry import register_model
from t2t.specs import INPUTS
from t2t.specs.features import ProblemSpec

ROOT_HALF = 0.5**0.5
"""Scales a sum of two terms to the variance of one (section 3.4)."""


def linear(channels: int, inputs: int, dropout: float = 0.0, **kwargs) -> Convolution:
    """Returns a linear map from n_l `inputs` that keeps the variance (section 3.5) of inputs with dropout."""
    return Convolution(channels, 1, deviation=((1.0 - dropout) / inputs) ** 0.5, weight_norm=True, **kwargs)


def with_scaled_gradient(x, factor: float):
    """Returns `x`; its gradient is multiplied by `factor`."""

    @custom_gradient
    def same(x):
        return x, lambda upstream: upstream * factor

    return same(x)


class GatedConvolution(keras.layers.Layer):
    """v([A B]) = A * sigmoid(B) of a convolution with twice the channels (section 3.2; Dauphin et al. 2016).

    Weights begin as N(0, sqrt(4 p / n_l)), since the gates halve the values and quarter their variance (section 3.5).
    n_l is `kernel_size` times `inputs`, the channels of the input; 1 - p is `dropout`, the rate on the input.
    """

    def __init__(self, channels: int, inputs: int, kernel_size: int, causal: bool, dropout: float, **kwargs):
        super().__init__(**kwargs)
        self.inputs = inputs
        deviation = (4.0 * (1.0 - dropout) / (kernel_size * inputs)) ** 0.5
        self.convolution = Convolution(
            2 * channels, kernel_size, deviation=deviation, weight_norm=True, causal=causal,
            dtype=self.dtype_policy, name="convolution",
        )  # fmt: skip
        self.dropout = Dropout(dropout, dtype=self.dtype_policy, name="dropout")

    def build(self, input_shape):
        """Builds the convolution for (B, T, channels of the input)."""
        self.convolution.build((*input_shape[:-1], self.inputs))
        self.dropout.build()

    def call(self, x, keep_BT=None, cache: StepCache | None = None, seed=None):
        """Returns (B, T, C), or with a cache (N, C); positions where `keep_BT` (B, T) is False are read as zeros."""
        a, b = ops.split(self.convolution(self.dropout(x, seed=seed), keep_BT, cache=cache), 2, axis=-1)
        return a * ops.sigmoid(b)


class GatedLayer(keras.layers.Layer):
    """A gated convolution in a residual connection: sqrt(1/2) * (v(W x + b) + x), with x mapped if its width differs.

    The arguments are those of `GatedConvolution`.
    """

    def __init__(self, channels: int, inputs: int, kernel_size: int, causal: bool, dropout: float, **kwargs):
        super().__init__(**kwargs)
        self.convolution = GatedConvolution(
            channels, inputs, kernel_size, causal, dropout, dtype=self.dtype_policy, name="gated"
        )
        self.channels, self.inputs, self.widen = channels, inputs, None
        if inputs != channels:
            self.widen = linear(channels, inputs, dtype=self.dtype_policy, name="widen")

    def build(self, input_shape):
        """Builds the parts for (B, T, channels of the input)."""
        for part in (self.convolution, self.widen):
            if part is not None:
                part.build((*input_shape[:-1], self.inputs))

    def call(self, x, keep_BT=None, cache: StepCache | None = None, seed=None, between=lambda y: y):
        """Returns (B, T, C), or with a cache (N, C); `between` maps the gates' output before the sum."""
        y = between(self.convolution(x, keep_BT, cache=cache, seed=seed))
        return (y + (x if self.widen is None else self.widen(x, cache=cache))) * ROOT_HALF


class MultiStepAttention(keras.layers.Layer):
    """c_i = sum_j a_ij (z_j + e_j) with a_i = softmax_j(d_i . z_j), d_i = W h_i + b + g_i (equations 1 and 2).

    A sum of m terms with weights of about 1/m is m^-1/2 times as large as one term, so c is scaled by m sqrt(1/m)
    (section 3.4). Then it is mapped from D to C and added to h.
    """

    def __init__(self, channels: int, width: int, **kwargs):
        super().__init__(**kwargs)
        self.channels, self.width = channels, width
        self.query = linear(width, channels, dtype=self.dtype_policy, name="query")
        self.context = linear(channels, width, dtype=self.dtype_policy, name="context")

    def build(self, input_shape):
        """Builds both maps for (B, Q, C)."""
        self.query.build((*input_shape[:-1], self.channels))
        self.context.build((*input_shape[:-1], self.width))

    def call(self, h, g, memory: Memory, cache: StepCache | None = None):
        """Returns sqrt(1/2) * (h + c), (B, Q, C), or with a cache (N, C).

        Args:
            h: (B, Q, C) or (N, C), the output of the layer's gates.
            g: (B, Q, D) or (N, D), embeddings of the tokens before each position.
            memory: keys z and values of the source.
            cache: in a decoding step.
        """
        d_BQD = (self.query(h, cache=cache) + g) * ROOT_HALF
        if cache is not None:
            d_BQD = cache.by_sentence(d_BQD, ops.shape(memory.keys)[0])
        weights_BQS = probabilities(float32_product(d_BQD, memory.keys), memory.keep[:, None, :], self.path)
        # m sqrt(1/m) = sqrt(m), where m is the number of words of the sentence, at least 1.
        words_B11 = ops.maximum(ops.sum(ops.cast(memory.keep, "float32"), axis=1), 1.0)[:, None, None]
        weights_BQS = ops.cast(weights_BQS * ops.sqrt(words_B11), h.dtype)
        context = self.context(ops.matmul(weights_BQS, memory.values))
        return (h + ops.reshape(context, ops.shape(h))) * ROOT_HALF


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
        self.encoder = GatedEncoder(width, layers, hparams.dropout, causal=False, dtype=policy, name="encoder")
        self.decoder = GatedDecoder(width, layers, hparams.dropout, dtype=policy, name="decoder")
        self.source_dropout = Dropout(hparams.dropout, dtype=policy, name="source_dropout")
        self.target_dropout = Dropout(hparams.dropout, dtype=policy, name="target_dropout")
        self.build()

    @property
    def longest_sequence(self) -> int:
        """The length of the tables of positions."""
        return self.hparams.max_length

    def encode(self, features: Features, seed=None) -> Memory:
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


class GatedEncoder(Stack):
    """Gated convolutions with windows centred on each position."""

    def call(self, x_BSD, keep_BS, seed=None):
        """Returns z (B, S, D); positions where `keep_BS` (B, S) is False are read as zeros."""
        x_BSC = self.narrow(x_BSD)
        for layer in self.layers_:
            x_BSC = layer(x_BSC, keep_BS, seed=seed)
        return self.wide(x_BSC)


class GatedDecoder(Stack):
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
