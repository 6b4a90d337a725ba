"""Translation with Grid LSTM in numpy: one sentence and one block at a time.

Written only from section 3 of Kalchbrenner, Danihelka and Graves (2015, arXiv:1507.01526); no padding or batches,
float64.
"""

import numpy as np

from tests.reference.lstm import sigmoid


def lstm(hidden, memory, w, b):
    """Equation 3: the new hidden state and memory of one dimension, from the hidden states of all dimensions."""
    u, f, c, o = np.split(hidden @ w + b, 4)
    memory = sigmoid(f) * memory + sigmoid(u) * np.tanh(c)
    return np.tanh(sigmoid(o) * memory), memory


class GridLstm:
    """A model with weights given by path; source, target and output share a table."""

    def __init__(self, weights, grids):
        self.weights = {path: value.astype(np.float64) for path, value in weights.items()}
        self.grids = grids

    def scan(self, number, depth, positions, length):
        """Returns the depth vectors of each (i, j) after a grid, and for each j that of the last i in scan order."""
        width = len(depth[0, 0][0])
        kernels = np.split(self.weights[f"grid_{number}/kernel"], 3, axis=1)
        biases = np.split(self.weights[f"grid_{number}/bias"], 3)
        target = {i: (np.zeros(width), np.zeros(width)) for i in range(positions)}
        after, last = {}, []
        for j in range(length):
            source = (np.zeros(width), np.zeros(width))
            for i in range(positions) if number % 2 == 0 else reversed(range(positions)):
                entering = (source, target[i], depth[i, j])
                hidden = np.concatenate([h for h, _ in entering])
                source, target[i], after[i, j] = (
                    lstm(hidden, m, w, b) for (_, m), w, b in zip(entering, kernels, biases, strict=True)
                )
            last.append(after[i, j][0])
        return after, last

    def logits(self, source, target):
        """Returns the logits, one row for each target id, given the ids before it."""
        table, weights = self.weights["target_embedding/table"], self.weights
        width = table.shape[1]
        xs = [table[i] * width**0.5 for i in source]
        ys = [np.zeros(width), *(table[i] * width**0.5 for i in target[:-1])]
        depth = {}
        for i, x in enumerate(xs):
            for j, y in enumerate(ys):
                pair = x @ weights["source_map/kernel"] + weights["source_map/bias"] + y @ weights["target_map/kernel"]
                depth[i, j] = (pair[:width], pair[width:])
        for number in range(self.grids):
            depth, last = self.scan(number, depth, len(xs), len(ys))
        return np.array(last) @ table.T
