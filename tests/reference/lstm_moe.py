"""The LSTM translator with mixtures of experts in numpy: one sentence, one step and one expert at a time.

Written only from section 2 and appendices B, E and G of Shazeer et al. (2017, arXiv:1701.06538); no padding, batches
or noise, float64.
"""

import numpy as np

from tests.reference.lstm import Lstm, lstm_step, sigmoid, softmax


class LstmMoe(Lstm):
    """A model with weights given by path; source, target and output share a table.

    `layers` is the number of encoder layers, `chosen` that of experts selected by a gate, and `groups` that of
    second-level gates, 0 for none.
    """

    def __init__(self, weights, layers, chosen, groups):
        super().__init__(weights, layers, None, None, tied=True)
        self.chosen, self.groups = chosen, groups

    def zeros(self, path):
        u = self.weights[f"{path}/recurrent_kernel"]
        return np.zeros(u.shape[0]), np.zeros(u.shape[1] // 4)

    def step(self, x, state, path):
        """Returns the new h, projected if the cell has a projection, and c."""
        h, c = lstm_step(x, *state, *self.cell(path))
        projection = self.weights.get(f"{path}/projection_kernel")
        return (h if projection is None else h @ projection), c

    def gate(self, scores):
        """Returns the best experts or groups with their weights, the softmax of their scores."""
        best = np.argsort(-scores)[: self.chosen]
        weights = np.exp(scores[best])
        return list(zip(best, weights / weights.sum(), strict=True))

    def experts(self, x, stack):
        """x + sigmoid(sum of weights and experts)."""
        path = f"{stack}/experts/experts"
        if not self.groups:
            chosen = self.gate(x @ self.weights[f"{path}/gate/gate_kernel"])
        else:
            below = np.split(self.weights[f"{path}/gate/secondary/gate_kernel"], self.groups, axis=1)
            size, chosen = below[0].shape[1], []
            for group, weight in self.gate(x @ self.weights[f"{path}/gate/primary/gate_kernel"]):
                chosen += [(group * size + e, weight * w) for e, w in self.gate(x @ below[group])]
        total = np.zeros_like(x)
        inner, inner_bias, outer, outer_bias = (
            self.weights[f"{path}/{name}"] for name in ("inner", "inner_bias", "outer", "outer_bias")
        )
        for e, weight in chosen:
            hidden = np.maximum(x @ inner[e] + inner_bias[e], 0)
            total += weight * (hidden @ outer[e] + outer_bias[e])
        return x + sigmoid(total)

    def encode(self, ids):
        """Returns the output of the top layer for each word."""
        table = self.table("source")
        xs = [table[i] * table.shape[1] ** 0.5 for i in ids]
        for layer in range(self.layers):
            if layer == self.layers - 1:
                xs = [self.experts(x, "encoder") for x in xs]
            path = f"encoder/layer_{layer}/cell"
            state, found = self.zeros(path), []
            for x in xs:
                state = self.step(x, state, path)
                found.append(x + state[0])
            xs = found
        return xs

    def context(self, query, memory):
        """Returns the mean of the source's states, weighted by scores sum v_d tanh(x U)_d tanh(y W)_d."""
        u, w, v = (self.weights[f"decoder/attention/{name}_kernel"] for name in ("memory", "query", "score"))
        scores = [sum(v[:, 0] * np.tanh(query @ w) * np.tanh(y @ u)) for y in memory]
        return sum(a * y for a, y in zip(softmax(np.array(scores)), memory, strict=True))

    def logits(self, source, target):
        """Returns the logits, one row for each target id, given the ids before it."""
        memory, table, output_table = self.encode(source), self.table("target"), self.table("output")
        width, rows = table.shape[1], []
        paths = ["decoder/bottom", *(f"decoder/layer_{i}/cell" for i in range(1, self.layers - 1))]
        states = [self.zeros(path) for path in paths]
        w, u, b = self.cell("decoder/bottom")
        both = np.concatenate([w, self.weights["decoder/context_kernel"]])
        projection = self.weights.get("decoder/bottom/projection_kernel")
        for x in [np.zeros(width), *(table[i] * width**0.5 for i in target[:-1])]:
            read = np.concatenate([x, self.context(states[0][0], memory)])
            h, c = lstm_step(read, *states[0], both, u, b)
            states[0] = (h if projection is None else h @ projection, c)
            x = self.experts(x + states[0][0], "decoder")
            for layer, path in enumerate(paths[1:], start=1):
                states[layer] = self.step(x, states[layer], path)
                x = x + states[layer][0]
            rows.append(output_table @ x)
        return np.array(rows)
