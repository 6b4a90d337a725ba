"""The LSTM translator with mixtures of experts in numpy: one step and one expert at a time.

Written only from section 2 and appendices B, E and G of Shazeer et al. (2017, arXiv:1701.06538), without noise.
"""

import numpy as np

from tests.reference.convolution import relu, sigmoid
from tests.reference.lstm import Lstm
from tests.reference.transformer import softmax


def best_experts(scores, chosen):
    """Returns the best experts or groups with their weights, the softmax of their scores."""
    best = np.argsort(-scores)[:chosen]
    weights = np.exp(scores[best])
    return list(zip(best, weights / weights.sum(), strict=True))


def mixture(weights, path, x, chosen):
    """Returns the sum of the outputs of the chosen experts, times their weights."""
    inner, inner_bias, outer, outer_bias = (
        weights[f"{path}/{name}"] for name in ("inner", "inner_bias", "outer", "outer_bias")
    )
    return sum(weight * (relu(x @ inner[e] + inner_bias[e]) @ outer[e] + outer_bias[e]) for e, weight in chosen)


class LstmMoe(Lstm):
    """The model, with gates of one or two levels."""

    def experts(self, x, stack):
        """x + sigmoid(sum of weights and experts)."""
        path, count = f"{stack}/experts/experts", self.hparams.experts_per_token
        if not self.hparams.expert_groups:
            chosen = best_experts(x @ self.weights[f"{path}/gate/gate_kernel"], count)
        else:
            below = np.split(self.weights[f"{path}/gate/secondary/gate_kernel"], self.hparams.expert_groups, axis=1)
            size, chosen = below[0].shape[1], []
            for group, weight in best_experts(x @ self.weights[f"{path}/gate/primary/gate_kernel"], count):
                chosen += [(group * size + e, weight * w) for e, w in best_experts(x @ below[group], count)]
        return x + sigmoid(mixture(self.weights, path, x, chosen))

    def encode(self, ids):
        """Returns the output of the top layer for each word."""
        xs, top = self.read(ids), self.hparams.num_hidden_layers - 1
        for layer in range(top + 1):
            xs = [self.experts(x, "encoder") for x in xs] if layer == top else xs
            hidden = self.run(xs, f"encoder/layer_{layer}/cell")[0]
            xs = [x + h for x, h in zip(xs, hidden, strict=True)]
        return xs

    def context(self, query, memory):
        """Returns the mean of the source's states, weighted by scores sum v_d tanh(x U)_d tanh(y W)_d."""
        u, w, v = (self.weights[f"decoder/attention/{name}_kernel"] for name in ("memory", "query", "score"))
        scores = [sum(v[:, 0] * np.tanh(query @ w) * np.tanh(y @ u)) for y in memory]
        return sum(a * y for a, y in zip(softmax(np.array(scores)), memory, strict=True))

    def logits(self, source, target):
        """Returns the logits, one row for each target id, given the ids before it."""
        memory, rows = self.encode(source), []
        paths = ["decoder/bottom", *(f"decoder/layer_{i}/cell" for i in range(1, self.hparams.num_hidden_layers - 1))]
        states = [self.zeros(path) for path in paths]
        for x in self.before(target):
            read = np.concatenate([x, self.context(states[0][0], memory)])
            states[0] = self.step(read, states[0], paths[0], "decoder/context_kernel")
            x = self.experts(x + states[0][0], "decoder")
            for layer, path in enumerate(paths[1:], start=1):
                states[layer] = self.step(x, states[layer], path)
                x = x + states[layer][0]
            rows.append(x)
        return self.logits_of(rows)
