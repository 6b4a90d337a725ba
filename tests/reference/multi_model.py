"""The MultiModel in numpy, without the noise of gates.

Written from Kaiser et al. (2017), section 2, and for its experts Shazeer et al. (2017), section 2.
"""

import numpy as np

from tests.reference.lstm_moe import best_experts, mixture
from tests.reference.slice_net import SliceNet, summed, with_timing
from tests.reference.transformer import attend


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
