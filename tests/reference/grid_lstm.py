"""Translation with Grid LSTM in numpy, one block at a time.

Written only from section 3 of Kalchbrenner, Danihelka and Graves (2015, arXiv:1507.01526).
"""

import numpy as np

from tests.reference.convolution import sigmoid
from tests.reference.model import Model


def lstm(hidden, memory, w, b):
    """Equation 3: the new hidden state and memory of one dimension, from the hidden states of all dimensions."""
    u, f, c, o = np.split(hidden @ w + b, 4)
    memory = sigmoid(f) * memory + sigmoid(u) * np.tanh(c)
    return np.tanh(sigmoid(o) * memory), memory


class GridLstm(Model):
    """The model; its layers are grids."""

    def scan(self, number, depth, positions, length):
        """Returns the depth vectors of each (i, j) after a grid, and for each j that of the last i in scan order."""
        zeros = np.zeros((2, len(depth[0, 0][0])))
        kernels = np.split(self.weights[f"grid_{number}/kernel"], 3, axis=1)
        biases = np.split(self.weights[f"grid_{number}/bias"], 3)
        target, after, last = dict.fromkeys(range(positions), zeros), {}, []
        for j in range(length):
            source = zeros
            for i in range(positions)[:: 1 if number % 2 == 0 else -1]:
                entering = (source, target[i], depth[i, j])
                hidden = np.concatenate([h for h, _ in entering])
                source, target[i], after[i, j] = (
                    lstm(hidden, m, w, b) for (_, m), w, b in zip(entering, kernels, biases, strict=True)
                )
            last.append(after[i, j][0])
        return after, last

    def logits(self, source, target):
        """Returns the logits, one row for each target id, given the ids before it."""
        source_map, bias, target_map = (
            self.weights[f"{path}"] for path in ("source_map/kernel", "source_map/bias", "target_map/kernel")
        )
        depth = {
            (i, j): np.split(x @ source_map + bias + y @ target_map, 2)
            for i, x in enumerate(self.read(source))
            for j, y in enumerate(self.before(target))
        }
        for number in range(self.hparams.num_hidden_layers):
            depth, last = self.scan(number, depth, len(source), len(target))
        return self.logits_of(last)
