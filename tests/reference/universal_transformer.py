"""The Universal Transformer in numpy: one sentence at a time, float64; no padding or batches.

Written from Dehghani et al. (2019), section 2.1, and Graves (2016), equations 5 to 15. The repeated layer comes from
tests/reference/transformer.py.
"""

import dataclasses

import numpy as np

from tests.reference.convolution import sigmoid
from tests.reference.transformer import Transformer, sinusoid


@dataclasses.dataclass
class Act:
    """Adaptive computation time."""

    epsilon: float
    ponder: float = 0.0
    """N + R of every position so far, summed."""


class UniversalTransformer(Transformer):
    """A model with given weights; `steps` is T, or with `act` the maximum number of steps."""

    def __init__(self, weights, architecture, steps, act=None):
        super().__init__(weights, architecture)
        self.steps, self.act = steps, act

    def place(self, x, position):
        """Positions are added in every step."""
        return x

    def stack(self, name, layers, states, parts):
        """Returns the states after all steps of the only layer."""
        return self.finish(name, self.repeat(name, states, lambda xs: self.layer(f"{name}/layer_0", xs, parts)))

    def repeat(self, stack, states, layer):
        """H^t = layer(H^(t-1) + P^t), with equation 6: P^t_i is the sinusoid of position i plus that of step t."""
        running, sums = [True] * len(states), [0.0] * len(states)
        outputs = [np.zeros_like(x) for x in states]
        for t in range(1, self.steps + 1):
            states = [x + sinusoid(i, len(x)) + sinusoid(t, len(x)) for i, x in enumerate(states)]
            fresh = layer(states)
            if self.act is None:
                states = fresh
                continue
            for i, x in enumerate(states):
                if running[i]:
                    h = self.halting_probability(stack, x)
                    if sums[i] + h >= 1.0 - self.act.epsilon or t == self.steps:
                        remainder = 1.0 - sums[i]
                        outputs[i] = outputs[i] + remainder * fresh[i]
                        self.act.ponder += t + remainder
                        running[i] = False
                    else:
                        outputs[i] = outputs[i] + h * fresh[i]
                        sums[i] += h
            states = [fresh[i] if running[i] else outputs[i] for i in range(len(states))]
        return states

    def halting_probability(self, stack, x):
        """Graves 2016, equation 5."""
        unit = f"{stack}/recurrence/halting/unit"
        return sigmoid(self.weights[f"{unit}/kernel"][:, 0] @ x + self.weights[f"{unit}/bias"][0])
