"""SliceNet in numpy: one sentence at a time, float64; no padding or batches.

Written from Kaiser, Gomez and Chollet (2017), sections 2 and 3.
"""

import numpy as np

from tests.reference.convolution import convolve, convolve_depthwise, softmax
from tests.reference.transformer import layer_norm, sinusoid


def with_timing(xs):
    return [x + np.array(sinusoid(t, len(x))) for t, x in enumerate(xs)]


class SliceNet:
    """A model with weights given by path; tables are shared.

    `steps` has (window, dilation) and `groups` the number of channel groups for each of the four steps of a module.
    """

    def __init__(self, weights, encoder, decoder, steps, kind, groups):
        self.weights = {path: value.astype(np.float64) for path, value in weights.items()}
        self.encoder, self.decoder, self.steps, self.kind, self.groups = encoder, decoder, steps, kind, groups

    def separable(self, xs, path, dilation, causal, kind, groups):
        windows = self.weights[f"{path}/windows/kernel"]
        if kind == "full":
            return convolve(xs, windows, None, dilation, causal)
        if kind == "grouped":
            ys = convolve(xs, windows, None, dilation, causal, groups=groups)
            return convolve(ys, self.weights[f"{path}/channels/kernel"])
        ys = convolve_depthwise(xs, windows, dilation, causal)
        return convolve(ys, self.weights[f"{path}/channels/kernel"], groups=groups)

    def step(self, xs, path, dilation, causal, kind, groups):
        ys = self.separable([np.maximum(x, 0) for x in xs], f"{path}/convolution", dilation, causal, kind, groups)
        gamma, beta = (self.weights[f"{path}/norm/{name}"] for name in ("gamma", "beta"))
        return [layer_norm(y, gamma, beta, 1e-6) for y in ys]

    def module(self, xs, path, causal):
        def step(ys, i):
            dilation = self.steps[i - 1][1]
            return self.step(ys, f"{path}/step_{i}", dilation, causal, self.kind, self.groups[i - 1])

        hidden_2 = [x + h for x, h in zip(xs, step(step(xs, 1), 2), strict=True)]
        return [x + h for x, h in zip(xs, step(step(hidden_2, 3), 4), strict=True)]

    def attention(self, source, xs, path):
        ys = with_timing(xs)
        for i, dilation in ((1, 1), (2, 4)):
            ys = self.step(ys, f"{path}/step_{i}", dilation, True, self.kind, self.groups[i - 1])
        found = []
        for y in ys:
            weights = softmax(np.array([y @ s / np.sqrt(len(y)) for s in source]))
            found.append(sum(a * s for a, s in zip(weights, source, strict=True)))
        return found

    def logits(self, source, target):
        """Returns the logits, one row for each target id, given the ids before it."""
        table = self.weights["target_embedding/table"]
        root = table.shape[1] ** 0.5
        hidden = with_timing([table[i] * root for i in source])
        for i in range(self.encoder):
            hidden = self.module(hidden, f"encoder_{i}", causal=False)
        xs = [np.zeros(table.shape[1]), *(table[i] * root for i in target[:-1])]
        found = self.attention(hidden, xs, "mixer/attention")
        both = [np.concatenate(pair) for pair in zip(found, xs, strict=True)]
        xs = self.step(both, "mixer/step", 1, True, "full" if self.kind == "full" else "separable", 1)
        for i in range(self.decoder):
            found = self.attention(hidden, xs, f"decoder_{i}/attention")
            xs = [m + f for m, f in zip(self.module(xs, f"decoder_{i}/module", causal=True), found, strict=True)]
        return np.array([table @ x for x in xs])
