"""Convolutional models in numpy, written from the papers.

The papers do not specify how ByteNet's two networks are joined, the norm at the end of each stack, and what is scaled;
which sums of two ConvS2S scales by sqrt(1/2), and that contexts are mapped to the layer's channels; how the inputs of a
WaveNet become the vector h that conditions all positions. For these see docs/numerics.md.
"""

import math

import numpy as np

from tests.reference.convolution import Model, convolve, convolve_depthwise, relu, sigmoid, with_lengths
from tests.reference.recurrent import Lstm, best_experts, mixture
from tests.reference.transformer import attend, sinusoid, softmax


# === ByteNet, its language model, and recurrent ones: sections 3.1 to 3.6 of Kalchbrenner et al. (2016) ===
class ByteNet(Model):
    """ByteNet; its source is unfolded to a |s| + b columns."""

    def normed(self, xs, path, dilation=1, causal=False):
        return self.convolution(
            [relu(self.norm(x, f"{path}/norm")) for x in xs], f"{path}/convolution", dilation, causal
        )

    def unit(self, hs, path, dilation, causal):
        ys = []
        for h, gates in zip(hs, self.convolution(hs, f"{path}/convolution", dilation, causal), strict=True):
            parts = [self.norm(part, f"{path}/norm_{i}") for i, part in enumerate(np.split(gates, 4))]
            g1, g2, g3, u = sigmoid(parts[0]), sigmoid(parts[1]), sigmoid(parts[2]), np.tanh(parts[3])
            ys.append(g1 * np.tanh(g2 * h + g3 * u))
        return ys

    def branch(self, xs, path, i, causal):
        dilations = self.hparams.dilations
        if self.hparams.block == "cascade":
            for j, dilation in enumerate(dilations):
                xs = self.normed(xs, f"{path}/window_{j}", dilation, causal)
            return [self.norm(x, f"{path}/norm") for x in xs]
        window = self.unit if self.hparams.block == "multiplicative" else self.normed
        hs = window(self.normed(xs, f"{path}/narrow"), f"{path}/window", dilations[i % len(dilations)], causal)
        return self.normed(hs, f"{path}/wide")

    def stack(self, xs, path, causal):
        for i in range(self.hparams.num_hidden_layers):
            ys = self.branch(xs, f"{path}/block_{i}", i, causal)
            xs = [x + y for x, y in zip(xs, ys, strict=True)]
        return [self.norm(x, f"{path}/norm") for x in xs]

    def columns(self, source, count):
        """Returns the source columns that the decoder reads at its first `count` positions."""
        zero = np.zeros_like(self.word(0))
        bound = math.ceil(round(self.hparams.unfolding_factor * len(source), 6)) + self.hparams.unfolding_offset
        found = self.encode(self.read(source) + [zero] * (bound - len(source)))
        return (found + [zero] * count)[:count]

    def encode(self, xs):
        return self.stack(xs, "encoder", causal=False)

    def joined(self, source, target):
        return [
            np.concatenate(pair) for pair in zip(self.columns(source, len(target)), self.before(target), strict=True)
        ]

    def logits(self, source, target):
        """Returns the logits, one row for each target id, given the ids before it."""
        return self.decode(self.convolution(self.joined(source, target), "join", causal=True))

    def decode(self, xs):
        xs = self.stack(xs, "decoder", causal=True)
        if self.hparams.block != "cascade":
            xs = [relu(self.norm(x, "output_norm")) for x in self.convolution(xs, "output_map")]
        return self.logits_of(xs)


class ByteNetLm(ByteNet):
    """The language model of section 5: the decoder without a source."""

    def logits(self, source, target):
        return self.decode(self.before(target))


class RecurrentByteNet(ByteNet, Lstm):
    """A decoder of LSTMs that read a source column with each word; the encoder has LSTM layers or ByteNet blocks."""

    def encode(self, xs):
        return ByteNet.encode(self, xs) if self.hparams.encoder == "convolutional" else self.run_layers(xs)[0]

    def logits(self, source, target):
        xs = self.joined(source, target)
        for i in range(self.hparams.num_decoder_layers):
            xs, _, _ = self.run(xs, f"decoder/stack/cell_{i}")
        return self.logits_of(xs)


# === ConvS2S: Gehring et al. (2017) ===

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


# === SliceNet: sections 2 and 3 of Kaiser, Gomez and Chollet (2017) ===
def with_timing(xs):
    return [x + np.array(sinusoid(t, len(x))) for t, x in enumerate(xs)]


def summed(*lists):
    return [sum(vectors) for vectors in zip(*lists, strict=True)]


class SliceNet(Model):
    """The model. The four steps of a module take groups of channels in turn."""

    def separable(self, xs, path, dilation, causal, kind, groups):
        windows = self.weights[f"{path}/windows/kernel"]
        if kind == "full":
            return convolve(xs, windows, None, dilation, causal)
        channels = self.weights[f"{path}/channels/kernel"]
        if kind == "grouped":
            return convolve(convolve(xs, windows, None, dilation, causal, groups), channels)
        return convolve(convolve_depthwise(xs, windows, dilation, causal), channels, groups=groups)

    def step(self, xs, path, dilation, causal, kind="", groups=1):
        """LN(SepConv(ReLU(x)))."""
        kind = kind or getattr(self.hparams, "convolution", "separable")
        ys = self.separable([relu(x) for x in xs], f"{path}/convolution", dilation, causal, kind, groups)
        return [self.norm(y, f"{path}/norm") for y in ys]

    def groups(self, i):
        groups = getattr(self.hparams, "convolution_groups", (1,))
        return groups[(i - 1) % len(groups)]

    def module(self, xs, path, causal):
        def step(ys, i):
            return self.step(ys, f"{path}/step_{i}", self.hparams.dilations[i - 1], causal, groups=self.groups(i))

        hidden_2 = summed(xs, step(step(xs, 1), 2))
        return summed(xs, step(step(hidden_2, 3), 4))

    def mixed(self, xs, path):
        """Returns the queries of an attention: two causal steps of what was written, with its timing."""
        ys = with_timing(xs)
        for i, dilation in ((1, 1), (2, 4)):
            ys = self.step(ys, f"{path}/step_{i}", dilation, True, groups=self.groups(i))
        return ys

    def attention(self, source, xs, path):
        return [attend(y, source, source) for y in self.mixed(xs, path)]

    def logits(self, source, target):
        """Returns the logits, one row for each target id, given the ids before it."""
        hidden, xs = with_timing(self.read(source)), self.before(target)
        for i in range(self.hparams.num_hidden_layers):
            hidden = self.module(hidden, f"encoder_{i}", causal=False)
        found = self.attention(hidden, xs, "mixer/attention")
        both = [np.concatenate(pair) for pair in zip(found, xs, strict=True)]
        kind = "full" if self.hparams.convolution == "full" else "separable"
        xs = self.step(both, "mixer/step", 1, True, kind)
        for i in range(self.hparams.num_decoder_layers):
            found = self.attention(hidden, xs, f"decoder_{i}/attention")
            xs = summed(self.module(xs, f"decoder_{i}/module", causal=True), found)
        return self.logits_of(xs)


# === The MultiModel, without noise: section 2 of Kaiser et al. (2017); experts: section 2 of Shazeer et al. (2017) ===
class MultiModel(SliceNet):
    """The model; its blocks are SliceNet's modules."""

    def multi_head(self, queries, memories, path, causal=False):
        """Attention of each query to the memories, with `causal` only to those up to its own position."""
        project = {n: self.weights[f"{path}/project/{n}_kernel"] for n in ("query", "key", "value")}
        found = []
        for t, query in enumerate(queries):
            seen = memories[: t + 1] if causal else memories
            split = {n: np.split(kernel, self.hparams.num_heads, axis=1) for n, kernel in project.items()}
            heads = [
                attend(query @ q, [y @ k for y in seen], [y @ v for y in seen])
                for q, k, v in zip(*split.values(), strict=True)
            ]
            found.append(np.concatenate(heads) @ self.weights[f"{path}/output/kernel"])
        return found

    def attention(self, source, xs, path):
        mixed = self.mixed(xs, path)
        if f"{path}/self_attention/output/kernel" in self.weights:  # not in a model of classes alone
            mixed = summed(mixed, self.multi_head(mixed, mixed, f"{path}/self_attention", causal=True))
        return self.multi_head(mixed, source, f"{path}/source_attention")

    def experts(self, xs, path):
        """x + sum over the best experts of gate weight * FFN(LN(x))."""
        ys = []
        for before in xs:
            x = self.norm(before, f"{path}/residual/norm")
            chosen = best_experts(x @ self.weights[f"{path}/experts/gate/gate_kernel"], self.hparams.experts_per_token)
            ys.append(before + mixture(self.weights, f"{path}/experts", x, chosen))
        return ys

    def encode(self, source):
        xs, layers = with_timing(self.read(source)), self.hparams.num_hidden_layers
        for i in range(layers):
            xs = self.module(xs, f"encoder_{i}", causal=False)
            xs = self.experts(xs, "encoder_experts") if i + 1 == (layers + 1) // 2 else xs
        return xs

    def decode(self, xs, source):
        layers = self.hparams.num_decoder_layers
        xs = summed(xs, self.attention(source, xs, "mixer/attention"))
        for i in range(2):
            xs = self.module(xs, f"mixer/block_{i}", causal=True)
        for i in range(layers):
            found = self.attention(source, xs, f"decoder_{i}/attention")
            xs = summed(self.module(xs, f"decoder_{i}/block", causal=True), found)
            xs = self.experts(xs, "decoder_experts") if i + 1 == (layers + 1) // 2 else xs
        return xs

    def logits(self, source, target):
        """Returns the logits, one row for each target id, given the command and the ids before it."""
        before = [self.weights["command/vector"], *self.before(target)[1:]]
        return self.logits_of(self.decode(before, self.encode(source)))

    def class_logits(self, source):
        """Returns the logits of a class, from the command only."""
        (x,) = self.decode([self.weights["command/vector"]], self.encode(source))
        return x @ self.weights["class_label/kernel"] + self.weights["class_label/bias"]


# === WaveNet: section 2 of van den Oord et al. (2016) ===
class WaveNet(Model):
    """The model."""

    def condition(self, source):
        """Returns V h of every block, one row each."""
        h = np.mean([relu(x) for x in self.convolution(self.read(source), "read")], axis=0)
        return np.split(h @ self.weights["condition/kernel"][0], self.hparams.num_hidden_layers)

    def logits(self, source, target):
        """One row for each id of the target, given those before it; `source` is None without inputs."""
        layers, dilations = self.hparams.num_hidden_layers, self.hparams.dilations
        conditions = [0.0] * layers if source is None else self.condition(source)
        xs, skipped = self.convolution(self.before(target), "first", causal=True), 0.0
        for i, condition in enumerate(conditions):
            path, zs = f"block_{i}", []
            for window in self.convolution(xs, f"{path}/window", dilations[i % len(dilations)], causal=True):
                content, gate = np.split(window + condition, 2)
                zs.append(np.tanh(content) * sigmoid(gate))
            skipped = skipped + np.array(self.convolution(zs, f"{path}/skip"))
            if i < layers - 1:
                xs = [x + y for x, y in zip(xs, self.convolution(zs, f"{path}/residual"), strict=True)]
        return self.logits_of([relu(x) for x in self.convolution([relu(x) for x in skipped], "output_map")])
