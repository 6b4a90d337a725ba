"""WaveNet in numpy: one sequence at a time, float64; no padding or batches.

Written from van den Oord et al. (2016), section 2. For how the inputs become the vector h that conditions all
positions, see docs/numerics.md.
"""

import numpy as np

from tests.reference.convolution import convolve, sigmoid


def relu(x):
    return np.maximum(x, 0)


class WaveNet:
    """A model with weights given by path; `source_table` is the path of the input table."""

    def __init__(self, weights, layers, dilations, source_table="target_embedding/table"):
        self.weights = {path: value.astype(np.float64) for path, value in weights.items()}
        self.layers, self.dilations, self.source_table = layers, dilations, source_table

    def convolution(self, xs, path, dilation=1, causal=False):
        return convolve(xs, self.weights[f"{path}/kernel"], self.weights.get(f"{path}/bias"), dilation, causal)

    def condition(self, source):
        """Returns V h of every block, one row each."""
        table = self.weights[self.source_table]
        read = self.convolution([table[i] * table.shape[1] ** 0.5 for i in source], "read")
        h = np.mean([relu(x) for x in read], axis=0)
        return np.split(h @ self.weights["condition/kernel"][0], self.layers)

    def logits(self, source, target):
        """One row for each id of the target, given those before it; `source` is None without inputs."""
        table = self.weights["target_embedding/table"]
        width = table.shape[1]
        conditions = [0.0] * self.layers if source is None else self.condition(source)
        before = [np.zeros(width), *(table[i] * width**0.5 for i in target[:-1])]
        xs, skipped = self.convolution(before, "first", causal=True), 0.0
        for i, condition in enumerate(conditions):
            path = f"block_{i}"
            windows = self.convolution(xs, f"{path}/window", self.dilations[i % len(self.dilations)], causal=True)
            zs = []
            for window in windows:
                content, gate = np.split(window + condition, 2)
                zs.append(np.tanh(content) * sigmoid(gate))
            skipped = skipped + np.array(self.convolution(zs, f"{path}/skip"))
            if i < self.layers - 1:
                xs = [x + y for x, y in zip(xs, self.convolution(zs, f"{path}/residual"), strict=True)]
        states = [relu(x) for x in self.convolution([relu(x) for x in skipped], "output_map")]
        output = self.weights.get("output_embedding/table", table)
        return np.array([output @ x for x in states])
