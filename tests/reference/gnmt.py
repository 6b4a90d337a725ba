"""GNMT in numpy: one sentence and one step at a time.

Written only from section 3 of Wu et al. (2016, arXiv:1609.08144); no padding or batches, float64.
"""

import numpy as np

from tests.reference.lstm import Lstm, lstm_step


class Gnmt(Lstm):
    """A model with weights given by path; source, target and output share a table."""

    def __init__(self, weights, layers):
        super().__init__(weights, layers, None, "bahdanau", tied=True)

    def encode(self, ids):
        """Returns the output of the top layer for each word."""
        table = self.table("source")
        xs = [table[i] * table.shape[1] ** 0.5 for i in ids]
        ahead, _, _ = self.run(xs, "encoder/layer_0_forward/cell")
        back, _, _ = self.run(xs[::-1], "encoder/layer_0_backward/cell")
        xs = [np.concatenate(pair) for pair in zip(ahead, back[::-1], strict=True)]
        for layer in range(2, self.layers + 1):
            hidden, _, _ = self.run(xs, f"encoder/layer_{layer - 1}/cell")
            xs = hidden if layer < 3 else [m + x for m, x in zip(hidden, xs, strict=True)]
        return xs

    def logits(self, source, target):
        """Returns the logits, one row for each target id, given the ids before it."""
        memory, table, output_table = self.encode(source), self.table("target"), self.table("output")
        width, rows = table.shape[1], []
        states = [(np.zeros(width), np.zeros(width))] * self.layers
        for x in [np.zeros(width), *(table[i] * width**0.5 for i in target[:-1])]:
            context, after = self.context(states[0][0], memory), []
            for layer in range(1, self.layers + 1):
                w, u, b = self.cell(f"decoder/cell_{layer - 1}")
                w = np.concatenate([w, self.weights[f"decoder/context_kernel_{layer - 1}"]])
                after.append(lstm_step(np.concatenate([x, context]), *states[layer - 1], w, u, b))
                x = after[-1][0] if layer < 3 else after[-1][0] + x
            states = after
            rows.append(output_table @ x)
        return np.array(rows)
