"""WaveNet in numpy, written from van den Oord et al. (2016), section 2.

For how the inputs become the vector h that conditions all positions, see docs/numerics.md.
"""

import numpy as np

from tests.reference.convolution import relu, sigmoid
from tests.reference.model import Model


class WaveNet(Model):
    """The model."""

    def condition(self, source):
        """Returns V h of every block, one row each."""
        h = np.mean([relu(x) for x in self.convolution(self.read(source), "read")], axis=0)
        return np.split(h @ self.weights["condition/kernel"][0], self.hparams.num_hidden_layers)

    def logits(self, source, target):
        """One row for each id of the target, given those before it; `source` is None without inputs."""
        layers, dilations = self.hparams.num_hidden_layers, self.hparams.dilations
        conditions = [0.0] * layers if source is None else self.condition(source)
        xs, skipped = self.convolution(self.before(target), "first", causal=True), 0.0
        for i, condition in enumerate(conditions):
            path, zs = f"block_{i}", []
            for window in self.convolution(xs, f"{path}/window", dilations[i % len(dilations)], causal=True):
                content, gate = np.split(window + condition, 2)
                zs.append(np.tanh(content) * sigmoid(gate))
            skipped = skipped + np.array(self.convolution(zs, f"{path}/skip"))
            if i < layers - 1:
                xs = [x + y for x, y in zip(xs, self.convolution(zs, f"{path}/residual"), strict=True)]
        return self.logits_of([relu(x) for x in self.convolution([relu(x) for x in skipped], "output_map")])
