"""Convolutions in numpy, one position and output channel at a time, float64; no padding or batches."""

import numpy as np


def window(xs, t, size, dilation, causal):
    """Returns the vectors in the window at position t, zeros beyond the ends."""
    start = t - (size - 1) * dilation if causal else t - (size - 1) * dilation // 2
    places = [start + j * dilation for j in range(size)]
    return [xs[p] if 0 <= p < len(xs) else np.zeros_like(xs[0]) for p in places]


def convolve(xs, kernel, bias=None, dilation=1, causal=False, groups=1):
    """y_t[f] = b[f] + sum over window positions j and channels c of the group of f: x_j[c] * kernel[j, c, f]."""
    size, inputs, outputs = kernel.shape
    ys = []
    for t in range(len(xs)):
        seen = window(xs, t, size, dilation, causal)
        y = np.zeros(outputs)
        for f in range(outputs):
            first = f // (outputs // groups) * inputs
            y[f] = sum(seen[j][first + c] * kernel[j, c, f] for j in range(size) for c in range(inputs))
        ys.append(y if bias is None else y + bias)
    return ys


def convolve_depthwise(xs, kernel, dilation=1, causal=False):
    """y_t[c] = sum over window positions j: x_j[c] * kernel[j, c]."""
    size = len(kernel)
    return [sum(x * kernel[j] for j, x in enumerate(window(xs, t, size, dilation, causal))) for t in range(len(xs))]


def with_lengths(kernel, lengths):
    """Weight normalization: rescales the weights of each output channel to the norm in `lengths`."""
    scaled = np.empty_like(kernel)
    for f, length in enumerate(lengths):
        scaled[..., f] = length * kernel[..., f] / np.linalg.norm(kernel[..., f])
    return scaled


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


def softmax(scores):
    e = np.exp(scores - np.max(scores))
    return e / e.sum()
