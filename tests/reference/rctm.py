"""Recurrent continuous translation models in numpy: one sentence and one column at a time.

Written from sections 3 and 4 of Kalchbrenner and Blunsom (2013); no padding or batches, float64.
"""

import math

import numpy as np


class Rctm:
    """RCTM I or II with weights given by path; source, target and output share a table.

    `layers` are the convolutions, `f` is the non-linearity; `unfolding` is the factor and the offset of RCTM II, or
    None for RCTM I.
    """

    def __init__(self, weights, layers, f, unfolding=None):
        self.weights = {path: value.astype(np.float64) for path, value in weights.items()}
        self.sizes, self.f, self.unfolding = range(2, layers + 2), f, unfolding

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
        table = self.weights["target_embedding/table"]
        xs = self.shrunk([table[i] * table.shape[1] ** 0.5 for i in source])
        if self.unfolding is None:
            return [np.mean(xs, axis=0)] * length
        factor, offset = self.unfolding
        columns = math.ceil(round(factor * len(source), 6)) + offset
        grams = max(columns - sum(size - 1 for size in self.sizes), 1)
        kernel, bias = self.weights["translation/kernel"], self.weights["translation/bias"]
        stretched = [self.f(xs[int((j + 0.5) / grams * len(xs))] @ kernel + bias) for j in range(grams)]
        found = self.grown(stretched)[:columns]
        return (found + [np.zeros_like(found[0])] * length)[:length]

    def logits(self, source, target):
        """Returns the logits, one row for each target id, given the ids before it."""
        table = self.weights["target_embedding/table"]
        i, s, r, b = (
            self.weights[f"recurrence/{name}"]
            for name in ("input_kernel", "condition_kernel", "recurrent_kernel", "bias")
        )
        words = [np.zeros(table.shape[1]), *(table[i] * table.shape[1] ** 0.5 for i in target[:-1])]
        h, rows = np.zeros(table.shape[1]), []
        for x, c in zip(words, self.conditions(source, len(target)), strict=True):
            h = self.f(x @ i + h @ r + b + c @ s)
            rows.append(table @ h)
        return np.array(rows)
