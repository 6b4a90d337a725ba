"""LSTM sequence to sequence in numpy, one step at a time.

Written only from the papers (Hochreiter and Schmidhuber 1997, Gers et al. 2000, Bahdanau et al. 2015, Luong et al.
2015).
"""

import numpy as np

from tests.reference.convolution import sigmoid
from tests.reference.model import Model
from tests.reference.transformer import softmax


def lstm_step(x, h, c, w, u, b):
    """One step of the cell; returns the new h and c."""
    gate_in, gate_forget, candidate, gate_out = np.split(x @ w + h @ u + b, 4)
    c = sigmoid(gate_forget) * c + sigmoid(gate_in) * np.tanh(candidate)
    return sigmoid(gate_out) * np.tanh(c), c


class Lstm(Model):
    """The model, without attention or with one of two kinds."""

    def cell(self, path):
        return tuple(self.weights[f"{path}/{name}"] for name in ("input_kernel", "recurrent_kernel", "bias"))

    def zeros(self, path):
        """Returns h and c before the first step; a projection makes h narrower than c."""
        u = self.weights[f"{path}/recurrent_kernel"]
        return np.zeros(u.shape[0]), np.zeros(u.shape[1] // 4)

    def step(self, x, state, path, also_reads=None):
        """Returns the new h and c of a cell; `also_reads` is the path of a kernel for the last numbers of its input."""
        w, u, b = self.cell(path)
        w = w if also_reads is None else np.concatenate([w, self.weights[also_reads]])
        h, c = lstm_step(x, *state, w, u, b)
        projection = self.weights.get(f"{path}/projection_kernel")
        return (h if projection is None else h @ projection), c

    def run(self, xs, path):
        """Returns h at each position, and the last h and c."""
        state, hidden = self.zeros(path), []
        for x in xs:
            state = self.step(x, state, path)
            hidden.append(state[0])
        return hidden, *state

    def run_layers(self, xs):
        """Returns the hidden state of the top layer for each word, and the last (h, c) of each layer."""
        direction, finals = self.hparams.encoder_direction, []
        for layer in range(self.hparams.num_hidden_layers):
            found = []
            if direction in ("forward", "bidirectional"):
                found.append(self.run(xs, f"encoder/layer_{layer}_forward/cell"))
            if direction in ("reversed", "bidirectional"):
                hidden, h, c = self.run(xs[::-1], f"encoder/layer_{layer}_backward/cell")
                found.append((hidden[::-1], h, c))
            xs = [np.concatenate(parts) for parts in zip(*(f[0] for f in found), strict=True)]
            finals.append((np.concatenate([f[1] for f in found]), np.concatenate([f[2] for f in found])))
        return xs, finals

    def context(self, query, memory):
        """Returns the attention context: the mean of the source's hidden states, weighted by the query's scores."""
        keys = self.weights["decoder/attention/memory_kernel"]
        if getattr(self.hparams, "attention_mechanism", "bahdanau") == "luong":
            scores = [h @ keys @ query for h in memory]
        else:
            v, w = self.weights["decoder/attention/score_kernel"], self.weights["decoder/attention/query_kernel"]
            scores = [float((np.tanh(query @ w + h @ keys) @ v)[0]) for h in memory]
        return sum(a * h for a, h in zip(softmax(np.array(scores)), memory, strict=True))

    def logits(self, source, target):
        """Returns the logits, one row for each target id, given the ids before it."""
        memory, states = self.run_layers(self.read(source))
        attention, rows = getattr(self.hparams, "attention_mechanism", None), []
        fed = np.zeros_like(self.word(0))
        for x in self.before(target):
            if attention == "bahdanau":
                fed = self.context(states[-1][0], memory)
            after = []
            for layer, state in enumerate(states):
                is_fed = layer == 0 and attention is not None
                x = np.concatenate([x, fed]) if is_fed else x
                after.append(self.step(x, state, f"decoder/cell_{layer}", "decoder/fed_kernel" if is_fed else None))
                x = after[-1][0]
            states = after
            if attention:
                context = fed if attention == "bahdanau" else self.context(x, memory)
                x = fed = np.tanh(np.concatenate([context, x]) @ self.weights["decoder/combine_kernel"])
            rows.append(x)
        return self.logits_of(rows)
