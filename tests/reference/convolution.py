"""Convolutions in numpy, one position at a time, float64; no padding or batches."""

import numpy as np


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
