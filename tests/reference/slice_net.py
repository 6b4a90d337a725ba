"""SliceNet in numpy, written from Kaiser, Gomez and Chollet (2017), sections 2 and 3."""

import numpy as np

from tests.reference.convolution import convolve, convolve_depthwise, relu
from tests.reference.model import Model
from tests.reference.transformer import attend, sinusoid


def with_timing(xs):
    return [x + np.array(sinusoid(t, len(x))) for t, x in enumerate(xs)]


def summed(*lists):
    return [sum(vectors) for vectors in zip(*lists, strict=True)]


class SliceNet(Model):
    """The model. The four steps of a module take groups of channels in turn."""

    def separable(self, xs, path, dilation, causal, kind, groups):
        windows = self.weights[f"{path}/windows/kernel"]
        if kind == "full":
            return convolve(xs, windows, None, dilation, causal)
        channels = self.weights[f"{path}/channels/kernel"]
        if kind == "grouped":
            return convolve(convolve(xs, windows, None, dilation, causal, groups), channels)
        return convolve(convolve_depthwise(xs, windows, dilation, causal), channels, groups=groups)

    def step(self, xs, path, dilation, causal, kind="", groups=1):
        """LN(SepConv(ReLU(x)))."""
        kind = kind or getattr(self.hparams, "convolution", "separable")
        ys = self.separable([relu(x) for x in xs], f"{path}/convolution", dilation, causal, kind, groups)
        return [self.norm(y, f"{path}/norm") for y in ys]

    def groups(self, i):
        groups = getattr(self.hparams, "convolution_groups", (1,))
        return groups[(i - 1) % len(groups)]

    def module(self, xs, path, causal):
        def step(ys, i):
            return self.step(ys, f"{path}/step_{i}", self.hparams.dilations[i - 1], causal, groups=self.groups(i))

        hidden_2 = summed(xs, step(step(xs, 1), 2))
        return summed(xs, step(step(hidden_2, 3), 4))

    def mixed(self, xs, path):
        """Returns the queries of an attention: two causal steps of what was written, with its timing."""
        ys = with_timing(xs)
        for i, dilation in ((1, 1), (2, 4)):
            ys = self.step(ys, f"{path}/step_{i}", dilation, True, groups=self.groups(i))
        return ys

    def attention(self, source, xs, path):
        return [attend(y, source, source) for y in self.mixed(xs, path)]

    def logits(self, source, target):
        """Returns the logits, one row for each target id, given the ids before it."""
        hidden, xs = with_timing(self.read(source)), self.before(target)
        for i in range(self.hparams.num_hidden_layers):
            hidden = self.module(hidden, f"encoder_{i}", causal=False)
        found = self.attention(hidden, xs, "mixer/attention")
        both = [np.concatenate(pair) for pair in zip(found, xs, strict=True)]
        kind = "full" if self.hparams.convolution == "full" else "separable"
        xs = self.step(both, "mixer/step", 1, True, kind)
        for i in range(self.hparams.num_decoder_layers):
            found = self.attention(hidden, xs, f"decoder_{i}/attention")
            xs = summed(self.module(xs, f"decoder_{i}/module", causal=True), found)
        return self.logits_of(xs)
