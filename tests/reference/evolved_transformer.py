"""The Evolved Transformer in numpy, written from figure 3 of So, Liang and Le (2019).

Attention and feed-forward come from tests/reference/transformer.py.
"""

import dataclasses
import functools

import numpy as np

from tests.reference.convolution import convolve, convolve_depthwise, relu, sigmoid
from tests.reference.transformer import Transformer


def added(xs, ys):
    """Sums two lists of vectors position by position; shorter vectors are padded with zeros."""
    longest = max(len(xs[0]), len(ys[0]))
    return [np.pad(x, (0, longest - len(x))) + np.pad(y, (0, longest - len(y))) for x, y in zip(xs, ys, strict=True)]


class EvolvedTransformer(Transformer):
    """A model with given weights; `wide_heads` is the number of heads of a decoder layer's first self-attention."""

    def __init__(self, weights, architecture, wide_heads):
        super().__init__(weights, architecture)
        self.wide_heads = wide_heads

    def encoder_parts(self):
        return {"gated_linear_unit": self.gated, "branches": self.encoder_branches, **super().encoder_parts()}

    def decoder_parts(self, memory):
        first = functools.partial(self.joint_attention, memory=memory)
        return {"joint_attention": first, "branches": self.decoder_branches, **super().decoder_parts(memory)}

    def gated(self, layer, xs):
        name = f"{layer}/gated_linear_unit"
        return [self.linear(f"{name}/values/", x) * sigmoid(self.linear(f"{name}/gates/", x)) for x in xs]

    def encoder_branches(self, layer, xs):
        """Convolutions of width 1 and 3, both with ReLU; their sum enters a separable convolution of width 9."""
        name = f"{layer}/branches"
        windows = {s: (self.weights[f"{name}/{s}/kernel"], self.weights[f"{name}/{s}/bias"]) for s in ("left", "right")}
        left, right = ([relu(y) for y in convolve(xs, *window)] for window in windows.values())
        both = [self.norm(f"{name}/norm", x) for x in added(left, right)]
        return added(self.separable(f"{name}/joint", both), [np.zeros(len(xs[0]))] * len(xs))

    def decoder_branches(self, layer, xs):
        """Causal separable convolutions: of width 11 with ReLU and 7 without; their sum enters one of width 7."""
        name = f"{layer}/branches"
        left = [relu(y) for y in self.separable(f"{name}/left", xs, causal=True)]
        right = self.separable(f"{name}/right", xs, causal=True)
        both = [self.norm(f"{name}/norm", x) for x in added(left, right)]
        return self.separable(f"{name}/joint", both, causal=True)

    def separable(self, name, xs, causal=False):
        ys = convolve_depthwise(xs, self.weights[f"{name}/windows/kernel"], causal=causal)
        return convolve(ys, self.weights[f"{name}/channels/kernel"])

    def joint_attention(self, layer, xs, memory):
        name = f"{layer}/joint_attention"
        found = self.as_if(lambda: self.attention(name, xs, causal=True), heads=self.wide_heads)
        return found if memory is None else added(found, self.attention(name, xs, memory=memory))

    def feed_forward(self, layer, states):
        """ReLU in the encoder, Swish in the decoder."""
        activation = "silu" if layer.startswith("decoder") else "relu"
        return self.as_if(lambda: super(EvolvedTransformer, self).feed_forward(layer, states), activation=activation)

    def as_if(self, function, **changes):
        """Calls a function with a temporarily changed architecture; returns its result."""
        own, self.shape = self.shape, dataclasses.replace(self.shape, **changes)
        found = function()
        self.shape = own
        return found
