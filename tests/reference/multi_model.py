"""The MultiModel in numpy: one sentence at a time, float64; no padding, batches or noise.

Written from Kaiser et al. (2017), section 2, and for its experts Shazeer et al. (2017), section 2.
"""

import numpy as np

from tests.reference.convolution import convolve, convolve_depthwise, softmax
from tests.reference.slice_net import with_timing
from tests.reference.transformer import attend, layer_norm


def summed(*lists):
    return [sum(vectors) for vectors in zip(*lists, strict=True)]


class MultiModel:
    """A model with weights given by path; tables are shared. `steps`: (window, dilation) of a block's four steps."""

    def __init__(self, weights, encoder, decoder, steps, heads, chosen):
        self.weights = {path: value.astype(np.float64) for path, value in weights.items()}
        self.encoder, self.decoder, self.steps, self.heads, self.chosen = encoder, decoder, steps, heads, chosen

    def norm(self, x, path):
        gamma, beta = (self.weights[f"{path}/{name}"] for name in ("gamma", "beta"))
        return layer_norm(x, gamma, beta, 1e-6)

    def conv_step(self, xs, path, dilation, causal):
        """LN(SepConv(ReLU(x)))."""
        active = [np.maximum(x, 0) for x in xs]
        ys = convolve_depthwise(active, self.weights[f"{path}/convolution/windows/kernel"], dilation, causal)
        return [self.norm(y, f"{path}/norm") for y in convolve(ys, self.weights[f"{path}/convolution/channels/kernel"])]

    def conv_block(self, xs, path, causal):
        def step(ys, i):
            return self.conv_step(ys, f"{path}/step_{i}", self.steps[i - 1][1], causal)

        hidden_2 = summed(xs, step(step(xs, 1), 2))
        return summed(xs, step(step(hidden_2, 3), 4))

    def multi_head(self, queries, memories, path, causal=False):
        """Attention of each query to the memories, with `causal` only to those up to its own position."""
        project = {n: self.weights[f"{path}/project/{n}_kernel"] for n in ("query", "key", "value")}
        size = queries[0].size // self.heads
        found = []
        for t, query in enumerate(queries):
            seen = memories[: t + 1] if causal else memories
            heads = []
            for h in range(self.heads):
                part = slice(h * size, (h + 1) * size)
                q, *rest = (project[n][:, part] for n in ("query", "key", "value"))
                keys, values = ([y @ kernel for y in seen] for kernel in rest)
                heads.append(attend(query @ q, keys, values))
            found.append(np.concatenate(heads) @ self.weights[f"{path}/output/kernel"])
        return found

    def attention(self, source, xs, path):
        mixed = with_timing(xs)
        for i, dilation in ((1, 1), (2, 4)):
            mixed = self.conv_step(mixed, f"{path}/step_{i}", dilation, causal=True)
        if f"{path}/self_attention/output/kernel" in self.weights:
            mixed = summed(mixed, self.multi_head(mixed, mixed, f"{path}/self_attention", causal=True))
        return self.multi_head(mixed, source, f"{path}/source_attention")

    def experts(self, xs, path):
        """x + sum over the best experts of gate weight * FFN(LN(x))."""
        get = {name: self.weights[f"{path}/experts/{name}"] for name in ("inner", "outer", "inner_bias", "outer_bias")}
        ys = []
        for before in xs:
            x = self.norm(before, f"{path}/residual/norm")
            scores = x @ self.weights[f"{path}/experts/gate/gate_kernel"]
            best = np.argsort(-scores)[: self.chosen]
            y = np.zeros_like(x)
            for share, e in zip(softmax(scores[best]), best, strict=True):
                inner = np.maximum(x @ get["inner"][e] + get["inner_bias"][e], 0)
                y = y + share * (inner @ get["outer"][e] + get["outer_bias"][e])
            ys.append(before + y)
        return ys

    def encode(self, vectors):
        xs = with_timing(vectors)
        for i in range(self.encoder):
            xs = self.conv_block(xs, f"encoder_{i}", causal=False)
            if i + 1 == (self.encoder + 1) // 2:
                xs = self.experts(xs, "encoder_experts")
        return xs

    def decode(self, xs, source):
        xs = summed(xs, self.attention(source, xs, "mixer/attention"))
        for i in range(2):
            xs = self.conv_block(xs, f"mixer/block_{i}", causal=True)
        for i in range(self.decoder):
            found = self.attention(source, xs, f"decoder_{i}/attention")
            xs = summed(self.conv_block(xs, f"decoder_{i}/block", causal=True), found)
            if i + 1 == (self.decoder + 1) // 2:
                xs = self.experts(xs, "decoder_experts")
        return xs

    def logits(self, source, target):
        """Returns the logits, one row for each target id, given the command and the ids before it."""
        table, command = self.weights["target_embedding/table"], self.weights["command/vector"]
        root = table.shape[1] ** 0.5
        before = [command, *(table[i] * root for i in target[:-1])]
        return np.array([table @ x for x in self.decode(before, self.encode([table[i] * root for i in source]))])

    def class_logits(self, source):
        """Returns the logits of a class, from the command only."""
        table = self.weights["source_embedding/table"]
        encoded = self.encode([table[i] * table.shape[1] ** 0.5 for i in source])
        (x,) = self.decode([self.weights["command/vector"]], encoded)
        return x @ self.weights["class_label/kernel"] + self.weights["class_label/bias"]
