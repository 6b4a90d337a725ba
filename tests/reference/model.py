"""What references of sequence models share: weights by path in float64, vectors of words, norms and convolutions.

They compute one sentence at a time, without padding or batches.
"""

import numpy as np

from tests.reference.convolution import convolve
from tests.reference.transformer import layer_norm


class Model:
    """A model with weights given by path; `hparams` give its sizes.

    A side without a table of its own has that of the targets.
    """

    def __init__(self, weights, hparams):
        self.weights = {path: np.asarray(value, np.float64) for path, value in weights.items()}
        self.hparams = hparams

    def table(self, side):
        return self.weights.get(f"{side}_embedding/table", self.weights.get("target_embedding/table"))

    def word(self, i, side="target"):
        return self.table(side)[i] * self.table(side).shape[1] ** 0.5

    def read(self, source):
        return [self.word(i, "source") for i in source]

    def before(self, target):
        """Returns the vector of the word before each target word, zeros before the first."""
        return [np.zeros(self.table("target").shape[1]), *(self.word(i) for i in target[:-1])]

    def logits_of(self, states):
        return np.array([self.table("output") @ x for x in states])

    def norm(self, x, path):
        return layer_norm(x, self.weights[f"{path}/gamma"], self.weights[f"{path}/beta"], 1e-6)

    def convolution(self, xs, path, dilation=1, causal=False):
        return convolve(xs, self.weights[f"{path}/kernel"], self.weights.get(f"{path}/bias"), dilation, causal)
