"""Deep-Att in numpy, one step at a time, written only from section 3 of Zhou et al. (2016, arXiv:1606.04199)."""

import numpy as np

from tests.reference.lstm import Lstm


class DeepAtt(Lstm):
    """The model; each layer also passes on half of what its gates read."""

    def column(self, xs, number):
        """Returns f and h of the top layer for each word."""
        for layer in range(1, self.hparams.num_hidden_layers + 1):
            path = f"encoder/column_{number}_layer_{layer - 1}/cell"
            w, _, b = self.cell(path)
            way = 1 if (layer + number) % 2 == 1 else -1
            hs = self.run(xs[::way], path)[0][::way]
            fs = [x @ w + b for x in xs]
            xs = [self.joined(f, h) for f, h in zip(fs, hs, strict=True)]
        return fs, hs

    @staticmethod
    def joined(f, h):
        return np.concatenate([f[: len(f) // 2], h])

    def encode(self, ids):
        """Returns the vectors that the decoder attends to, one for each word."""
        project, xs = self.weights["encoder/output_kernel"], self.read(ids)
        (f_1, h_1), (f_2, h_2) = self.column(xs, 0), self.column(xs, 1)
        return [np.concatenate(parts) @ project for parts in zip(h_1, f_1, h_2, f_2, strict=True)]

    def logits(self, source, target):
        """Returns the logits, one row for each target id, given the ids before it."""
        memory, rows = self.encode(source), []
        states = [self.zeros(f"decoder/cell_{i}") for i in range(self.hparams.num_decoder_layers)]
        for x in self.before(target):
            x, after = np.concatenate([x, self.context(states[0][0], memory)]), []
            for layer, state in enumerate(states):
                path, fed = f"decoder/cell_{layer}", "decoder/fed_kernel" if layer == 0 else None
                after.append(self.step(x, state, path, fed))
                w, _, b = self.cell(path)
                w = w if fed is None else np.concatenate([w, self.weights[fed]])
                x = self.joined(x @ w + b, after[-1][0])
            states = after
            rows.append(x @ self.weights["decoder/combine_kernel"])
        return self.logits_of(rows)
