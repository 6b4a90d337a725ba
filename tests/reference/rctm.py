"""Recurrent continuous translation models in numpy, one column at a time.

Written from sections 3 and 4 of Kalchbrenner and Blunsom (2013).
"""

import math

import numpy as np

from tests.reference.convolution import sigmoid
from tests.reference.model import Model


class Rctm(Model):
    """RCTM I, or RCTM II if the source is unfolded."""

    def __init__(self, weights, hparams):
        super().__init__(weights, hparams)
        self.f = {"sigmoid": sigmoid, "tanh": np.tanh}[hparams.activation]
        self.sizes = range(2, hparams.num_hidden_layers + 2)

    def shrunk(self, xs):
        """Returns the columns after the convolutions."""
        for size in self.sizes:
            kernel = self.weights[f"convolutions/windows_{size}/kernel"]
            if len(xs) > 1:
                windows = [xs[i : i + size] for i in range(max(len(xs) - size + 1, 1))]
                xs = [self.f(sum(k * x for k, x in zip(kernel, window, strict=False))) for window in windows]
        return xs

    def grown(self, xs):
        """Returns the columns after the inverse convolutions."""
        for size in reversed(self.sizes):
            kernel = self.weights[f"inverse/windows_{size}/kernel"]
            padded = [np.zeros_like(xs[0])] * (size - 1) + xs + [np.zeros_like(xs[0])] * (size - 1)
            xs = [self.f(sum(kernel[w] * padded[i + w] for w in range(size))) for i in range(len(xs) + size - 1)]
        return xs

    def conditions(self, source, length):
        """Returns the vectors that condition each target word."""
        xs = self.shrunk(self.read(source))
        if not hasattr(self.hparams, "unfolding_factor"):
            return [np.mean(xs, axis=0)] * length
        columns = math.ceil(round(self.hparams.unfolding_factor * len(source), 6)) + self.hparams.unfolding_offset
        grams = max(columns - sum(size - 1 for size in self.sizes), 1)
        kernel, bias = self.weights["translation/kernel"], self.weights["translation/bias"]
        stretched = [self.f(xs[int((j + 0.5) / grams * len(xs))] @ kernel + bias) for j in range(grams)]
        found = self.grown(stretched)[:columns]
        return (found + [np.zeros_like(found[0])] * length)[:length]

    def logits(self, source, target):
        """Returns the logits, one row for each target id, given the ids before it."""
        i, s, r, b = (
            self.weights[f"recurrence/{name}"]
            for name in ("input_kernel", "condition_kernel", "recurrent_kernel", "bias")
        )
        rows = [np.zeros_like(self.word(0))]
        for x, c in zip(self.before(target), self.conditions(source, len(target)), strict=True):
            rows.append(self.f(x @ i + rows[-1] @ r + b + c @ s))
        return self.logits_of(rows[1:])
