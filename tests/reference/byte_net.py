"""ByteNet in numpy, its language model, and recurrent ByteNets.

Written from Kalchbrenner et al. (2016), sections 3.1 to 3.6. The paper does not specify how the two networks are
joined, the norm at the end of each stack, and what is scaled; for these see docs/numerics.md.
"""

import math

import numpy as np

from tests.reference.convolution import relu, sigmoid
from tests.reference.lstm import Lstm
from tests.reference.model import Model


class ByteNet(Model):
    """ByteNet; its source is unfolded to a |s| + b columns."""

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
        dilations = self.hparams.dilations
        if self.hparams.block == "cascade":
            for j, dilation in enumerate(dilations):
                xs = self.normed(xs, f"{path}/window_{j}", dilation, causal)
            return [self.norm(x, f"{path}/norm") for x in xs]
        window = self.unit if self.hparams.block == "multiplicative" else self.normed
        hs = window(self.normed(xs, f"{path}/narrow"), f"{path}/window", dilations[i % len(dilations)], causal)
        return self.normed(hs, f"{path}/wide")

    def stack(self, xs, path, causal):
        for i in range(self.hparams.num_hidden_layers):
            ys = self.branch(xs, f"{path}/block_{i}", i, causal)
            xs = [x + y for x, y in zip(xs, ys, strict=True)]
        return [self.norm(x, f"{path}/norm") for x in xs]

    def columns(self, source, count):
        """Returns the source columns that the decoder reads at its first `count` positions."""
        zero = np.zeros_like(self.word(0))
        bound = math.ceil(round(self.hparams.unfolding_factor * len(source), 6)) + self.hparams.unfolding_offset
        found = self.encode(self.read(source) + [zero] * (bound - len(source)))
        return (found + [zero] * count)[:count]

    def encode(self, xs):
        return self.stack(xs, "encoder", causal=False)

    def joined(self, source, target):
        return [
            np.concatenate(pair) for pair in zip(self.columns(source, len(target)), self.before(target), strict=True)
        ]

    def logits(self, source, target):
        """Returns the logits, one row for each target id, given the ids before it."""
        return self.decode(self.convolution(self.joined(source, target), "join", causal=True))

    def decode(self, xs):
        xs = self.stack(xs, "decoder", causal=True)
        if self.hparams.block != "cascade":
            xs = [relu(self.norm(x, "output_norm")) for x in self.convolution(xs, "output_map")]
        return self.logits_of(xs)


class ByteNetLm(ByteNet):
    """The language model of section 5: the decoder without a source."""

    def logits(self, source, target):
        return self.decode(self.before(target))


class RecurrentByteNet(ByteNet, Lstm):
    """A decoder of LSTMs that read a source column with each word; the encoder has LSTM layers or ByteNet blocks."""

    def encode(self, xs):
        return ByteNet.encode(self, xs) if self.hparams.encoder == "convolutional" else self.run_layers(xs)[0]

    def logits(self, source, target):
        xs = self.joined(source, target)
        for i in range(self.hparams.num_decoder_layers):
            xs, _, _ = self.run(xs, f"decoder/stack/cell_{i}")
        return self.logits_of(xs)
