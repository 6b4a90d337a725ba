"""ByteNet in numpy, its language model, and recurrent ByteNets: one sentence at a time, float64; no padding or batches.

Written from Kalchbrenner et al. (2016), sections 3.1 to 3.6. The paper does not specify how the two networks are
joined, the norm at the end of each stack, and what is scaled; for these see docs/numerics.md.
"""

import math

import numpy as np

from tests.reference.convolution import convolve, sigmoid
from tests.reference.lstm import lstm_step
from tests.reference.transformer import layer_norm


def relu(x):
    return np.maximum(x, 0)


class ByteNet:
    """ByteNet with weights given by path and one shared table; `block` as in the hparams; a |s| + b columns."""

    def __init__(self, weights, layers, block, dilations, a, b):
        self.weights = {path: value.astype(np.float64) for path, value in weights.items()}
        self.layers, self.block, self.dilations, self.a, self.b = layers, block, dilations, a, b
        self.width = weights["target_embedding/table"].shape[1]

    def norm(self, x, path):
        return layer_norm(x, self.weights[f"{path}/gamma"], self.weights[f"{path}/beta"], 1e-6)

    def convolution(self, xs, path, dilation=1, causal=False):
        return convolve(xs, self.weights[f"{path}/kernel"], self.weights.get(f"{path}/bias"), dilation, causal)

    def normed(self, xs, path, dilation=1, causal=False):
        return self.convolution(
            [relu(self.norm(x, f"{path}/norm")) for x in xs], f"{path}/convolution", dilation, causal
        )

    def unit(self, hs, path, dilation, causal):
        ys = []
        for h, gates in zip(hs, self.convolution(hs, f"{path}/convolution", dilation, causal), strict=True):
            parts = [self.norm(part, f"{path}/norm_{i}") for i, part in enumerate(np.split(gates, 4))]
            g1, g2, g3, u = sigmoid(parts[0]), sigmoid(parts[1]), sigmoid(parts[2]), np.tanh(parts[3])
            ys.append(g1 * np.tanh(g2 * h + g3 * u))
        return ys

    def branch(self, xs, path, i, causal):
        if self.block == "cascade":
            for j, dilation in enumerate(self.dilations):
                xs = self.normed(xs, f"{path}/window_{j}", dilation, causal)
            return [self.norm(x, f"{path}/norm") for x in xs]
        dilation = self.dilations[i % len(self.dilations)]
        hs = self.normed(xs, f"{path}/narrow")
        if self.block == "multiplicative":
            hs = self.unit(hs, f"{path}/window", dilation, causal)
        else:
            hs = self.normed(hs, f"{path}/window", dilation, causal)
        return self.normed(hs, f"{path}/wide")

    def stack(self, xs, path, causal):
        for i in range(self.layers):
            ys = self.branch(xs, f"{path}/block_{i}", i, causal)
            xs = [x + y for x, y in zip(xs, ys, strict=True)]
        return [self.norm(x, f"{path}/norm") for x in xs]

    def columns(self, source, count):
        """Returns the source columns that the decoder reads at its first `count` positions."""
        zero = np.zeros(self.width)
        bound = math.ceil(round(self.a * len(source), 6)) + self.b
        found = self.encode([self.word(i) for i in source] + [zero] * (bound - len(source)))
        return (found + [zero] * count)[:count]

    def encode(self, xs):
        return self.stack(xs, "encoder", causal=False)

    def word(self, i):
        return self.weights["target_embedding/table"][i] * self.width**0.5

    def before(self, target):
        return [np.zeros(self.width), *(self.word(i) for i in target[:-1])]

    def logits(self, source, target):
        """Returns the logits, one row for each target id, given the ids before it."""
        columns, before = self.columns(source, len(target)), self.before(target)
        both = [np.concatenate(pair) for pair in zip(columns, before, strict=True)]
        return self.decode(self.convolution(both, "join", causal=True))

    def decode(self, xs):
        xs = self.stack(xs, "decoder", causal=True)
        if self.block != "cascade":
            xs = [relu(self.norm(x, "output_norm")) for x in self.convolution(xs, "output_map")]
        return np.array([self.weights["target_embedding/table"] @ x for x in xs])


class ByteNetLm(ByteNet):
    """The language model of section 5: the decoder without a source."""

    def logits(self, target):
        return self.decode(self.before(target))


class RecurrentByteNet(ByteNet):
    """Recurrent ByteNet: a decoder of `depth` LSTMs that read a source column with each word.

    The encoder has `layers` LSTM layers with a `direction` as in tests/reference/lstm.py, or ByteNet blocks if
    `direction` is None.
    """

    def __init__(self, weights, layers, block, dilations, a, b, depth, direction):
        super().__init__(weights, layers, block, dilations, a, b)
        self.depth, self.direction = depth, direction

    def run(self, xs, path):
        w, u, bias = (self.weights[f"{path}/{name}"] for name in ("input_kernel", "recurrent_kernel", "bias"))
        h, c, hidden = np.zeros(len(u)), np.zeros(len(u)), []
        for x in xs:
            h, c = lstm_step(x, h, c, w, u, bias)
            hidden.append(h)
        return hidden

    def encode(self, xs):
        if self.direction is None:
            return super().encode(xs)
        for i in range(self.layers):
            found = []
            if self.direction in ("forward", "bidirectional"):
                found.append(self.run(xs, f"encoder/layer_{i}_forward/cell"))
            if self.direction in ("reversed", "bidirectional"):
                found.append(self.run(xs[::-1], f"encoder/layer_{i}_backward/cell")[::-1])
            xs = [np.concatenate(parts) for parts in zip(*found, strict=True)]
        return xs

    def logits(self, source, target):
        xs = [np.concatenate(pair) for pair in zip(self.columns(source, len(target)), self.before(target), strict=True)]
        for i in range(self.depth):
            xs = self.run(xs, f"decoder/stack/cell_{i}")
        return np.array([self.weights["target_embedding/table"] @ x for x in xs])
