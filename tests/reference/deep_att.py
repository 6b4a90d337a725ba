"""Deep-Att in numpy: one sentence and one step at a time.

Written only from section 3 of Zhou et al. (2016, arXiv:1606.04199); no padding or batches, float64.
"""

import numpy as np

from tests.reference.lstm import Lstm, lstm_step


class DeepAtt(Lstm):
    """A model with weights given by path; source, target and output share a table."""

    def __init__(self, weights, layers, decoder_layers):
        super().__init__(weights, layers, None, "bahdanau", tied=True)
        self.decoder_layers = decoder_layers

    def column(self, xs, number):
        """Returns f and h of the top layer for each word."""
        for layer in range(1, self.layers + 1):
            w, _, b = self.cell(f"encoder/column_{number}_layer_{layer - 1}/cell")
            forwards = layer % 2 == 1 if number == 0 else layer % 2 == 0
            hs, _, _ = self.run(xs if forwards else xs[::-1], f"encoder/column_{number}_layer_{layer - 1}/cell")
            hs, fs = hs if forwards else hs[::-1], [x @ w + b for x in xs]
            xs = [self.joined(f, h) for f, h in zip(fs, hs, strict=True)]
        return fs, hs

    @staticmethod
    def joined(f, h):
        return np.concatenate([f[: len(f) // 2], h])

    def encode(self, ids):
        """Returns the vectors that the decoder attends to, one for each word."""
        table, project = self.table("source"), self.weights["encoder/output_kernel"]
        xs = [table[i] * table.shape[1] ** 0.5 for i in ids]
        (f_1, h_1), (f_2, h_2) = self.column(xs, 0), self.column(xs, 1)
        return [np.concatenate([h_1[t], f_1[t], h_2[t], f_2[t]]) @ project for t in range(len(ids))]

    def logits(self, source, target):
        """Returns the logits, one row for each target id, given the ids before it."""
        memory, table, output_table = self.encode(source), self.table("target"), self.table("output")
        width, rows = table.shape[1], []
        states = [(np.zeros(width), np.zeros(width))] * self.decoder_layers
        for x in [np.zeros(width), *(table[i] * width**0.5 for i in target[:-1])]:
            x, after = np.concatenate([x, self.context(states[0][0], memory)]), []
            for layer in range(self.decoder_layers):
                w, u, b = self.cell(f"decoder/cell_{layer}")
                w = np.concatenate([w, self.weights["decoder/fed_kernel"]]) if layer == 0 else w
                after.append(lstm_step(x, *states[layer], w, u, b))
                x = self.joined(x @ w + b, after[-1][0])
            states = after
            rows.append(output_table @ (x @ self.weights["decoder/combine_kernel"]))
        return np.array(rows)
