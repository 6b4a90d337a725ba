"""Convolutions in numpy, one position at a time, float64; what references of sequence models share.

They compute one sentence at a time, without padding or batches.
"""

import numpy as np

from tests.reference.transformer import layer_norm


def window(xs, t, size, dilation, causal):
    """Returns the vectors in the window at position t, zeros beyond the ends."""
    start = t - (size - 1) * dilation if causal else t - (size - 1) * dilation // 2
    places = [start + j * dilation for j in range(size)]
    return [xs[p] if 0 <= p < len(xs) else np.zeros_like(xs[0]) for p in places]


def convolve(xs, kernel, bias=None, dilation=1, causal=False, groups=1):
    """y_t = b + sum over window positions j: x_j * kernel[j], for each group of channels alone."""
    ys = []
    for t in range(len(xs)):
        seen = [np.split(x, groups) for x in window(xs, t, len(kernel), dilation, causal)]
        parts = [
            sum(x[group] @ matrix for x, matrix in zip(seen, block, strict=True))
            for group, block in enumerate(np.split(kernel, groups, axis=2))
        ]
        ys.append(np.concatenate(parts) + (0.0 if bias is None else bias))
    return ys


def convolve_depthwise(xs, kernel, dilation=1, causal=False):
    """y_t[c] = sum over window positions j: x_j[c] * kernel[j, c]."""
    size = len(kernel)
    return [sum(x * kernel[j] for j, x in enumerate(window(xs, t, size, dilation, causal))) for t in range(len(xs))]


def with_lengths(kernel, lengths):
    """Weight normalization: rescales the weights of each output channel to the norm in `lengths`."""
    return lengths * kernel / np.sqrt((kernel**2).sum(axis=(0, 1)))


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


def relu(x):
    return np.maximum(x, 0)


class Model:
    """A model with weights given by path; `hparams` give its sizes.

    A side without a table of its own has that of the targets.
    """

    def __init__(self, weights, hparams):
        self.weights = {path: np.asarray(value, np.float64) for path, value in weights.items()}
        self.hparams = hparams

    def table(self, side):
        return self.weights.get(f"{side}_embedding/table", self.weights.get("target_embedding/table"))

    def word(self, i, side="target"):
        return self.table(side)[i] * self.table(side).shape[1] ** 0.5

    def read(self, source):
        return [self.word(i, "source") for i in source]

    def before(self, target):
        """Returns the vector of the word before each target word, zeros before the first."""
        return [np.zeros(self.table("target").shape[1]), *(self.word(i) for i in target[:-1])]

    def logits_of(self, states):
        return np.array([self.table("output") @ x for x in states])

    def norm(self, x, path):
        return layer_norm(x, self.weights[f"{path}/gamma"], self.weights[f"{path}/beta"], 1e-6)

    def convolution(self, xs, path, dilation=1, causal=False):
        return convolve(xs, self.weights[f"{path}/kernel"], self.weights.get(f"{path}/bias"), dilation, causal)
