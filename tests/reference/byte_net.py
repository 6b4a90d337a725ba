"""ByteNet in numpy: a sentence at a time, float64; no padding, no batches.

Written from Kalchbrenner et al. (2016), sections 3.1 to 3.6, but for three things on which the paper is silent, for
which see docs/numerics.md: how the two networks are joined, the norm at the end of each stack, and what is scaled.
"""

import math

import numpy as np

from tests.reference.convolution import convolve, sigmoid
from tests.reference.transformer import layer_norm


def relu(x):
    return np.maximum(x, 0)


class ByteNet:
    """A model of these weights by path; tables are shared. `block` as in the hparams; a |s| + b columns."""

    def __init__(self, weights, layers, block, dilations, a, b):
        self.weights = {path: value.astype(np.float64) for path, value in weights.items()}
        self.layers, self.block, self.dilations, self.a, self.b = layers, block, dilations, a, b

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

    def logits(self, source, target):
        """One row for each id of the target, given those before it."""
        table = self.weights["target_embedding/table"]
        width = table.shape[1]
        zero = np.zeros(width)
        words = [table[i] * width**0.5 for i in source]
        bound = math.ceil(round(self.a * len(source), 6)) + self.b
        columns = self.stack(words + [zero] * (bound - len(source)), "encoder", causal=False)
        before = [zero, *(table[i] * width**0.5 for i in target[:-1])]
        columns = (columns + [zero] * len(before))[: len(before)]
        both = [np.concatenate(pair) for pair in zip(columns, before, strict=True)]
        xs = self.stack(self.convolution(both, "join", causal=True), "decoder", causal=True)
        if self.block != "cascade":
            xs = [relu(self.norm(x, "output_norm")) for x in self.convolution(xs, "output_map")]
        return np.array([table @ x for x in xs])
