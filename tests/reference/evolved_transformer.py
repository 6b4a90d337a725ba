"""The Evolved Transformer in numpy: one sentence at a time, float64; no padding or batches.

Written from figure 3 of So, Liang and Le (2019); attention and feed-forward come from tests/reference/transformer.py.
"""

import dataclasses

import numpy as np

from tests.reference.convolution import convolve, convolve_depthwise, sigmoid
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

    def encode(self, source):
        """Returns the encoder's output, a list of S vectors."""
        states = [self.place(self.embed("target_embedding", token), i) for i, token in enumerate(source)]
        for layer in range(self.shape.encoder_layers):
            name = f"encoder/layer_{layer}"
            for part, function in (
                ("gated_linear_unit", self.gated),
                ("branches", self.encoder_branches),
                ("self_attention", self.attention),
                ("ffn", self.feed_forward),
            ):
                states = self.sublayer(f"{name}/{part}", states, lambda xs, f=function, n=name: f(n, xs))
        return self.finish("encoder", states)

    def decode(self, target, memory):
        """Returns the decoder's output, a list of T vectors."""
        width = self.weights["target_embedding/table"].shape[1]
        before = [np.zeros(width)] + [self.embed("target_embedding", token) for token in target[:-1]]
        states = [self.place(x, position) for position, x in enumerate(before)]
        for layer in range(self.shape.decoder_layers):
            name = f"decoder/layer_{layer}"
            for part, function in (
                ("joint_attention", lambda n, xs: self.joint_attention(n, xs, memory)),
                ("branches", self.decoder_branches),
                ("self_attention", lambda n, xs: self.attention(n, xs, causal=True)),
                ("encdec_attention", lambda n, xs: self.attention(n, xs, memory=memory)),
                ("ffn", self.feed_forward),
            ):
                if part == "encdec_attention" and memory is None:
                    continue
                states = self.sublayer(f"{name}/{part}", states, lambda xs, f=function, n=name: f(n, xs))
        return self.finish("decoder", states)

    def gated(self, layer, xs):
        name = f"{layer}/gated_linear_unit"
        return [self.linear(f"{name}/values/", x) * sigmoid(self.linear(f"{name}/gates/", x)) for x in xs]

    def encoder_branches(self, layer, xs):
        """Convolutions of width 1 and 3, both with ReLU; their sum enters a separable convolution of width 9."""
        name = f"{layer}/branches"
        left, right = (
            [
                np.maximum(y, 0)
                for y in convolve(xs, self.weights[f"{name}/{s}/kernel"], self.weights[f"{name}/{s}/bias"])
            ]
            for s in ("left", "right")
        )
        both = [self.norm(f"{name}/norm", x) for x in added(left, right)]
        return added(self.separable(f"{name}/joint", both), [np.zeros(len(xs[0]))] * len(xs))

    def decoder_branches(self, layer, xs):
        """Causal separable convolutions: of width 11 with ReLU and 7 without; their sum enters one of width 7."""
        name = f"{layer}/branches"
        left = [np.maximum(y, 0) for y in self.separable(f"{name}/left", xs, causal=True)]
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
