"""LSTM sequence to sequence in numpy: one sentence and one step at a time.

Written only from the papers (Hochreiter and Schmidhuber 1997, Gers et al. 2000, Bahdanau et al. 2015, Luong et al.
2015); no padding or batches, float64.
"""

import numpy as np


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


def lstm_step(x, h, c, w, u, b):
    """One step of the cell; returns the new h and c."""
    units = len(c)
    pre = x @ w + h @ u + b
    gate_in, gate_forget = sigmoid(pre[:units]), sigmoid(pre[units : 2 * units])
    candidate, gate_out = np.tanh(pre[2 * units : 3 * units]), sigmoid(pre[3 * units :])
    c = gate_forget * c + gate_in * candidate
    return gate_out * np.tanh(c), c


def softmax(scores):
    e = np.exp(scores - max(scores))
    return e / e.sum()


class Lstm:
    """A model with weights given by path; `tied` tells whether source, target and output share a table."""

    def __init__(self, weights, layers, direction, attention, tied):
        self.weights = {path: value.astype(np.float64) for path, value in weights.items()}
        self.layers, self.direction, self.attention, self.tied = layers, direction, attention, tied

    def table(self, name):
        return self.weights[f"{'target' if self.tied else name}_embedding/table"]

    def cell(self, path):
        return tuple(self.weights[f"{path}/{name}"] for name in ("input_kernel", "recurrent_kernel", "bias"))

    def run(self, xs, path):
        w, u, b = self.cell(path)
        h, c, hidden = np.zeros(len(u)), np.zeros(len(u)), []
        for x in xs:
            h, c = lstm_step(x, h, c, w, u, b)
            hidden.append(h)
        return hidden, h, c

    def encode(self, ids):
        """Returns the hidden state of the top layer for each word, and the last (h, c) of each layer."""
        table = self.table("source")
        xs, finals = [table[i] * table.shape[1] ** 0.5 for i in ids], []
        for layer in range(self.layers):
            found = []
            if self.direction in ("forward", "bidirectional"):
                found.append(self.run(xs, f"encoder/layer_{layer}_forward/cell"))
            if self.direction in ("reversed", "bidirectional"):
                hidden, h, c = self.run(xs[::-1], f"encoder/layer_{layer}_backward/cell")
                found.append((hidden[::-1], h, c))
            xs = [np.concatenate(parts) for parts in zip(*(f[0] for f in found), strict=True)]
            finals.append((np.concatenate([f[1] for f in found]), np.concatenate([f[2] for f in found])))
        return xs, finals

    def context(self, query, memory):
        """Returns the attention context: the mean of the source's hidden states, weighted by the query's scores."""
        keys = self.weights["decoder/attention/memory_kernel"]
        if self.attention == "luong":
            scores = [h @ keys @ query for h in memory]
        else:
            v, w = self.weights["decoder/attention/score_kernel"], self.weights["decoder/attention/query_kernel"]
            scores = [float((np.tanh(query @ w + h @ keys) @ v)[0]) for h in memory]
        return sum(a * h for a, h in zip(softmax(np.array(scores)), memory, strict=True))

    def logits(self, source, target):
        """Returns the logits, one row for each target id, given the ids before it."""
        memory, states = self.encode(source)
        table, output_table = self.table("target"), self.table("output")
        fed, rows = np.zeros(table.shape[1]), []
        words = [np.zeros(table.shape[1]), *(table[i] * table.shape[1] ** 0.5 for i in target[:-1])]
        for x in words:
            if self.attention == "bahdanau":
                fed = self.context(states[-1][0], memory)
            after = []
            for layer in range(self.layers):
                w, u, b = self.cell(f"decoder/cell_{layer}")
                if layer == 0 and self.attention:
                    w, x = np.concatenate([w, self.weights["decoder/fed_kernel"]]), np.concatenate([x, fed])
                after.append(lstm_step(x, *states[layer], w, u, b))
                x = after[-1][0]
            states = after
            if self.attention:
                context = fed if self.attention == "bahdanau" else self.context(x, memory)
                x = fed = np.tanh(np.concatenate([context, x]) @ self.weights["decoder/combine_kernel"])
            rows.append(output_table @ x)
        return np.array(rows)
