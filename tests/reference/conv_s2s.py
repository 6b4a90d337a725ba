"""Convolutional sequence to sequence in numpy.

Written from Gehring et al. (2017). The paper does not specify which sums of two are scaled by sqrt(1/2), nor that
contexts are mapped to the layer's channels; for these see docs/numerics.md.
"""

import numpy as np

from tests.reference.convolution import convolve, sigmoid, with_lengths
from tests.reference.model import Model
from tests.reference.transformer import softmax

ROOT_HALF = np.sqrt(0.5)


class ConvS2s(Model):
    """The model; kernels have weight normalization."""

    def convolution(self, xs, path, dilation=1, causal=False):
        kernel, lengths, bias = (self.weights[f"{path}/{name}"] for name in ("kernel", "length", "bias"))
        return convolve(xs, with_lengths(kernel, lengths), bias, dilation, causal)

    def embed(self, vectors, side):
        positions = self.weights[f"{side}_positions/table"]
        return [0.1 * v + p for v, p in zip(vectors, positions, strict=False)]

    def gates(self, xs, path, causal):
        halves = [np.split(y, 2) for y in self.convolution(xs, f"{path}/gated/convolution", causal=causal)]
        return [a * sigmoid(b) for a, b in halves]

    def residual(self, ys, xs, path):
        if f"{path}/widen/kernel" in self.weights:
            xs = self.convolution(xs, f"{path}/widen")
        return [(y + x) * ROOT_HALF for y, x in zip(ys, xs, strict=True)]

    def encode(self, ids):
        es = self.embed(self.read(ids), "source")
        xs = self.convolution(es, "encoder/narrow")
        for layer in range(self.hparams.num_hidden_layers):
            path = f"encoder/layer_{layer}"
            xs = self.residual(self.gates(xs, path, causal=False), xs, path)
        zs = self.convolution(xs, "encoder/wide")
        return zs, [(z + e) * ROOT_HALF for z, e in zip(zs, es, strict=True)]

    def attend(self, hs, gs, memory, path):
        found = []
        for d, g in zip(self.convolution(hs, f"{path}/query"), gs, strict=True):
            weights = softmax(np.array([z @ (d + g) * ROOT_HALF for z in memory[0]]))
            m = len(weights)
            found.append(m * np.sqrt(1 / m) * sum(a * v for a, v in zip(weights, memory[1], strict=True)))
        contexts = self.convolution(found, f"{path}/context")
        return [(h + c) * ROOT_HALF for h, c in zip(hs, contexts, strict=True)]

    def logits(self, source, target):
        """Returns the logits, one row for each target id, given the ids before it."""
        memory, gs = self.encode(source), self.embed(self.before(target), "target")
        xs = self.convolution(gs, "decoder/narrow")
        for layer in range(self.hparams.num_hidden_layers):
            path = f"decoder/layer_{layer}"
            hs = self.attend(self.gates(xs, path, causal=True), gs, memory, f"decoder/attention_{layer}")
            xs = self.residual(hs, xs, path)
        return self.logits_of(self.convolution(xs, "decoder/wide"))
