"""Variants of the Transformer in plain numpy, one sentence at a time, whose sub-layers are those of `transformer.py`.

Legend: S source length, T target length, N words of a target, D width, V vocabulary, L lengths.
"""

import dataclasses
import functools
import math

import numpy as np

from tests.reference.convolution import convolve, convolve_depthwise, relu, sigmoid
from tests.reference.transformer import Transformer, sinusoid, softmax

# === Conditional masked language models and mask-predict: Ghazvininejad et al. 2019 (arXiv:1904.09324) ===

PAD, END = 0, 1


class TransformerCmlm(Transformer):
    """The model with one set of weights; sections 2.1 and 2.3 of the paper."""

    def read(self, source):
        """Returns the encoder's output for the decoder, S vectors, and the log-probabilities of lengths, (L,)."""
        states = [self.weights["length_token"], *self.placed(self.source_vectors(source), range(len(source)))]
        length, *memory = self.stack("encoder", self.shape.encoder_layers, states, self.encoder_parts())
        return memory, np.log(softmax(self.linear("target_length/", length)))

    def fill(self, target, memory):
        """Returns the logits at every position of a target with its end, (N + 1, V); None is a masked word."""
        mask = self.weights["mask_token"]
        vectors = [mask if word is None else self.embed("target_embedding", word) for word in target]
        parts = self.decoder_parts(memory) | {"self_attention": self.attention}
        states = self.stack("decoder", self.shape.decoder_layers, self.placed(vectors, range(len(target))), parts)
        return np.array([self.output_table() @ x for x in states])


def mask_predict(log_probs_of, count, iterations):
    """Section 3.1 for one target of `count` words; returns the words and their log-probabilities.

    `log_probs_of(words)` returns the log-probabilities of the vocabulary at each position; None is a masked word.
    """
    words, scores = [None] * count, [0.0] * count
    for t in range(iterations):
        masked = sorted(range(count), key=lambda i: (scores[i], i))[: math.floor(count * (iterations - t) / iterations)]
        found = log_probs_of([None if i in masked else word for i, word in enumerate(words)])
        for i in masked:
            allowed = {token: value for token, value in enumerate(found[i]) if token not in (PAD, END)}
            words[i] = max(allowed, key=lambda token: (allowed[token], -token))
            scores[i] = allowed[words[i]]
    return words, scores


def best_of_lengths(length_log_probs, log_probs_of, candidates, iterations, limit):
    """Section 3.3; returns (mean log-probability of a word, log-probability with the length, words), best first.

    An output has at least one word, and at most `limit` tokens including its end.
    """
    possible = [count for count in range(1, len(length_log_probs)) if count < limit]
    chosen = sorted(possible, key=lambda count: (-length_log_probs[count], count))[:candidates]
    outputs = []
    for rank, count in enumerate(chosen):
        words, scores = mask_predict(log_probs_of, count, iterations)
        outputs.append((-sum(scores) / count, rank, sum(scores) + length_log_probs[count], words))
    return [(-negative, total, words) for negative, _, total, words in sorted(outputs)]


# === Inputs and targets as one sequence ===
class PrependedTransformer(Transformer):
    """The model with one set of weights; `sees_all` tells whether inputs see the inputs after them.

    For inputs x and targets y it reads x_1 .. x_S, a zero vector, y_1, y_2, ...; its outputs at the zero vector and
    after it predict y_1, y_2, ...
    """

    def __init__(self, weights, architecture, sees_all):
        super().__init__(weights, architecture)
        self.sees_all, self.inputs = sees_all, 0

    def encode(self, source):
        """Returns the embeddings of the source, which the decoder reads."""
        return self.source_vectors(source)

    def decode(self, target, memory):
        """Returns the outputs that predict the targets, a list of T vectors."""
        self.inputs, both = len(memory), [*memory, *self.before(target)]
        states = self.placed(both, range(len(both)))
        return self.stack("decoder", self.shape.decoder_layers, states, self.encoder_parts())[self.inputs :]

    def places(self, position, count, causal, is_self):
        """Returns the visible positions: all inputs for an input, or the position itself and all before it."""
        return range(self.inputs if self.sees_all and position < self.inputs else position + 1)


# === Dehghani et al. (2019), section 2.1, and Graves (2016), equations 5 to 15 ===
@dataclasses.dataclass
class Act:
    """Adaptive computation time."""

    epsilon: float
    ponder: float = 0.0
    """N + R of every position so far, summed."""


class UniversalTransformer(Transformer):
    """A model with given weights; `steps` is T, or with `act` the maximum number of steps."""

    def __init__(self, weights, architecture, steps, act=None):
        super().__init__(weights, architecture)
        self.steps, self.act = steps, act

    def place(self, x, position):
        """Positions are added in every step."""
        return x

    def stack(self, name, layers, states, parts):
        """Returns the states after all steps of the only layer."""
        return self.finish(name, self.repeat(name, states, lambda xs: self.layer(f"{name}/layer_0", xs, parts)))

    def repeat(self, stack, states, layer):
        """H^t = layer(H^(t-1) + P^t), with equation 6: P^t_i is the sinusoid of position i plus that of step t."""
        running, sums = [True] * len(states), [0.0] * len(states)
        outputs = [np.zeros_like(x) for x in states]
        for t in range(1, self.steps + 1):
            states = [x + sinusoid(i, len(x)) + sinusoid(t, len(x)) for i, x in enumerate(states)]
            fresh = layer(states)
            if self.act is None:
                states = fresh
                continue
            for i, x in enumerate(states):
                if running[i]:
                    h = self.halting_probability(stack, x)
                    if sums[i] + h >= 1.0 - self.act.epsilon or t == self.steps:
                        remainder = 1.0 - sums[i]
                        outputs[i] = outputs[i] + remainder * fresh[i]
                        self.act.ponder += t + remainder
                        running[i] = False
                    else:
                        outputs[i] = outputs[i] + h * fresh[i]
                        sums[i] += h
            states = [fresh[i] if running[i] else outputs[i] for i in range(len(states))]
        return states

    def halting_probability(self, stack, x):
        """Graves 2016, equation 5."""
        unit = f"{stack}/recurrence/halting/unit"
        return sigmoid(self.weights[f"{unit}/kernel"][:, 0] @ x + self.weights[f"{unit}/bias"][0])


# === Figure 3 of So, Liang and Le (2019) ===
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
        found = self.as_if(
            lambda: self.attention(name, xs, causal=True), heads=self.wide_heads, decoder_heads=self.wide_heads
        )
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
