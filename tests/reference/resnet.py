"""Residual networks in numpy, for one batch, one position at a time: He et al. 2015 and 2016, Gastaldi 2017.

Written from the papers. Images are (B, Y, X, C); the weights of a norm include its moving moments.
"""

import numpy as np

EPSILON = 1e-5


def convolve(x, kernel, stride=1, bias=0.0):
    """y[r, c] = sum over the window around (stride * r, stride * c), zeros beyond the edges, of x * kernel."""
    edge = kernel.shape[0] // 2
    padded = np.pad(x, ((0, 0), (edge, edge), (edge, edge), (0, 0)))
    rows, columns = -(-x.shape[1] // stride), -(-x.shape[2] // stride)
    y = np.zeros((len(x), rows, columns, kernel.shape[-1]))
    for r in range(rows):
        for c in range(columns):
            top, left = stride * r, stride * c
            seen = padded[:, top : top + kernel.shape[0], left : left + kernel.shape[1]]
            y[:, r, c] = np.einsum("bijc,ijcd->bd", seen, kernel)
    return y + bias


def batch_norm(x, weights, trains):
    """Normalizes each channel by its moments over images and positions if `trains`, else by the moving moments."""
    mean, variance = weights["moving_mean"], weights["moving_variance"]
    if trains:
        channels = x.reshape(-1, x.shape[-1])
        mean = channels.sum(0) / len(channels)
        variance = ((channels - mean) ** 2).sum(0) / len(channels)
    return weights["gamma"] * (x - mean) / np.sqrt(variance + EPSILON) + weights["beta"]


def relu(x):
    return np.maximum(x, 0.0)


def part(weights, name):
    """Returns the weights below a path, by the rest of their paths."""
    return {path.removeprefix(f"{name}/"): value for path, value in weights.items() if path.startswith(f"{name}/")}


class Block:
    """One residual block, with weights given by path."""

    def __init__(self, weights, stride, trains):
        self.weights, self.stride, self.trains = weights, stride, trains
        self.count = sum(path.startswith("convolution_") for path in weights)

    def convolve(self, name, x, stride=1):
        return convolve(x, self.weights[f"{name}/kernel"], stride)

    def norm(self, name, x):
        return batch_norm(x, part(self.weights, name), self.trains)

    def step(self, i, x):
        """Convolution i; the first 3 x 3 convolution has the stride."""
        return self.convolve(f"convolution_{i}", x, self.stride if i == (1 if self.count == 3 else 0) else 1)

    def postactivated(self, x):
        y = x
        for i in range(self.count):
            y = self.norm(f"norm_{i}", self.step(i, y))
            y = relu(y) if i < self.count - 1 else y
        if "shortcut/kernel" in self.weights:
            x = self.norm("shortcut_norm", self.convolve("shortcut", x, self.stride))
        return relu(x + y)

    def preactivated(self, x):
        y = relu(self.norm("norm_0", x))
        if "shortcut/kernel" in self.weights:
            x = self.convolve("shortcut", y, self.stride)
        y = self.step(0, y)
        for i in range(1, self.count):
            y = self.step(i, relu(self.norm(f"norm_{i}", y)))
        return x + y


def branch(x, weights, stride, trains):
    """Twice ReLU, convolution and norm."""
    for i in range(2):
        x = convolve(relu(x), weights[f"convolution_{i}/kernel"], stride if i == 0 else 1)
        x = batch_norm(x, part(weights, f"norm_{i}"), trains)
    return x


def shifted_shortcut(x, weights, trains):
    """Concatenates pixels (0, 0), (0, 2), ... with pixels (1, 1), (1, 3), ..., or zeros where there are none."""
    x = relu(x)
    images, rows, columns, channels = x.shape
    halves = [np.zeros((images, -(-rows // 2), -(-columns // 2), channels)) for _ in range(2)]
    for shift in range(2):
        for r in range(shift, rows, 2):
            for c in range(shift, columns, 2):
                halves[shift][:, r // 2, c // 2] = x[:, r, c]
    projected = [convolve(half, weights[f"convolution_{i}/kernel"]) for i, half in enumerate(halves)]
    return batch_norm(np.concatenate(projected, axis=-1), part(weights, "norm"), trains)


def shake_block(x, weights, stride, trains, share=0.5):
    """The sum of the shortcut and both branches, the first with weight `share`, the second with 1 - `share`."""
    first, second = (branch(x, part(weights, f"branch_{i}"), stride, trains) for i in range(2))
    carried = shifted_shortcut(x, part(weights, "shortcut"), trains) if stride > 1 else x
    return carried + share * first + (1 - share) * second


def standardised(images):
    """Scales each image to mean 0 and variance 1."""
    x = images / 255.0
    x = x - x.mean((1, 2, 3), keepdims=True)
    return x / np.maximum(np.sqrt((x**2).mean((1, 2, 3), keepdims=True)), 1e-3)


def classify(weights, x):
    """Logits of the mean over positions."""
    return x.mean((1, 2)) @ weights["class_label/kernel"] + weights["class_label/bias"]
