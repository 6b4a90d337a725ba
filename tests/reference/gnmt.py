"""GNMT in numpy, one step at a time, written only from section 3 of Wu et al. (2016, arXiv:1609.08144)."""

import numpy as np

from tests.reference.lstm import Lstm


class Gnmt(Lstm):
    """The model; layers are counted from 1, and those from the third on are residual."""

    def encode(self, ids):
        """Returns the output of the top layer for each word."""
        xs = self.read(ids)
        ahead, back = (
            self.run(xs, "encoder/layer_0_forward/cell")[0],
            self.run(xs[::-1], "encoder/layer_0_backward/cell")[0],
        )
        xs = [np.concatenate(pair) for pair in zip(ahead, back[::-1], strict=True)]
        for layer in range(2, self.hparams.num_hidden_layers + 1):
            hidden = self.run(xs, f"encoder/layer_{layer - 1}/cell")[0]
            xs = hidden if layer < 3 else [m + x for m, x in zip(hidden, xs, strict=True)]
        return xs

    def logits(self, source, target):
        """Returns the logits, one row for each target id, given the ids before it."""
        memory, rows = self.encode(source), []
        states = [self.zeros(f"decoder/cell_{i}") for i in range(self.hparams.num_hidden_layers)]
        for x in self.before(target):
            context, after = self.context(states[0][0], memory), []
            for i, state in enumerate(states):
                after.append(
                    self.step(np.concatenate([x, context]), state, f"decoder/cell_{i}", f"decoder/context_kernel_{i}")
                )
                x = after[-1][0] if i < 2 else after[-1][0] + x
            states = after
            rows.append(x)
        return self.logits_of(rows)
