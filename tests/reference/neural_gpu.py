"""Neural GPUs in numpy, one step and one position at a time.

Written only from the papers (Kaiser and Sutskever 2016, Freivalds and Liepins 2017, Kaiser and Bengio 2016).
"""

import math

import numpy as np

from tests.reference.convolution import Model

WEIGHTS = ("gates_kernel", "gates_bias", "candidate_kernel", "candidate_bias")


def convolve(state, kernel, bias):
    """Convolution of a state (positions, rows, channels), zeros beyond its ends."""
    positions, rows, _ = state.shape
    high, wide = kernel.shape[:2]
    out = np.zeros((positions, rows, kernel.shape[-1]))
    for p in range(positions):
        for r in range(rows):
            out[p, r] = bias
            for i in range(high):
                for j in range(wide):
                    q, s = p + i - high // 2, r + j - wide // 2
                    if 0 <= q < positions and 0 <= s < rows:
                        out[p, r] += state[q, s] @ kernel[i, j]
    return out


def saturating_sigmoid(x):
    return np.maximum(0, np.minimum(1, 1.2 / (1 + np.exp(-x)) - 0.1))


def hard_sigmoid(x):
    return np.maximum(0, np.minimum(1, (x + 1) / 2))


def shift(state):
    """Moves a third of the channels to the next position and a third to the previous one; fills with zeros."""
    third = state.shape[-1] // 3
    still, ahead, back = np.split(state, [state.shape[-1] - 2 * third, state.shape[-1] - third], axis=-1)
    zeros = np.zeros_like(ahead[:1])
    return np.concatenate([still, np.concatenate([zeros, ahead[:-1]]), np.concatenate([back[1:], zeros])], axis=-1)


class NeuralGpu(Model):
    """The model; `diagonal` is the one of 2017."""

    diagonal = False

    def unit(self, state, i):
        """Returns the state after a unit, and by position the mean saturation of the inputs of its non-linearities."""
        w = {name: self.weights[f"unit_{i}/{name}"] for name in WEIGHTS}
        k, b = w["candidate_kernel"], w["candidate_bias"]
        channels = state.shape[-1]
        reset = convolve(state, w["gates_kernel"][..., :channels], w["gates_bias"][:channels])
        update = convolve(state, w["gates_kernel"][..., channels:], w["gates_bias"][channels:])
        squash = hard_sigmoid if self.diagonal else saturating_sigmoid
        u = squash(update)
        candidate = convolve(squash(reset) * state, k, b)
        if not self.diagonal:
            return u * state + (1 - u) * np.tanh(candidate), np.zeros(len(state))
        saturated = [np.maximum(0, np.abs(x) - 0.9) for x in (reset, update, candidate)]
        fresh = np.clip(candidate, -1, 1)
        return u * shift(state) + (1 - u) * fresh, np.mean(saturated, axis=(0, 2, 3))

    def repeat(self, state):
        """Returns the state after `steps_per_position` steps for each position, and the saturation of each unit."""
        found = []
        for _ in range(self.hparams.steps_per_position * len(state)):
            for i in range(self.hparams.num_hidden_layers):
                state, saturated = self.unit(state, i)
                found.append(saturated)
        return state, found

    def start(self, ids, positions):
        """Returns a state with the vectors of the words in its first row."""
        state = np.zeros((positions, self.hparams.state_rows, len(self.word(0, "source"))))
        state[: len(ids), 0] = self.read(ids)
        return state

    def run(self, ids):
        """Returns the first row of the last state, and the saturation summed over positions."""
        start = self.start(ids, len(ids))
        state, found = self.repeat(np.clip(start, -1, 1) if self.diagonal else start)
        return state[:, 0], np.mean(found, axis=0).sum()

    def logits(self, source, target):
        """One row for each id of the target; zeros beyond the last position, where there is no output."""
        rows = self.logits_of(self.run(source)[0])
        return np.concatenate([rows, np.zeros((len(target), rows.shape[1]))])[: len(target)]


class DiagonalNeuralGpu(NeuralGpu):
    """Shifts diagonally, with hard non-linearities."""

    diagonal = True


class ExtendedNeuralGpu(NeuralGpu):
    """The model of Kaiser and Bengio 2016: a |s| + b positions, and units that also read a tape of past outputs."""

    def encode(self, ids):
        factor, offset = self.hparams.unfolding_factor, self.hparams.unfolding_offset
        return self.repeat(self.start(ids, math.ceil(round(factor * len(ids), 6)) + offset))[0]

    def write(self, state, tape, i):
        """Returns the state after a decoder unit; input channels of its kernels are the state's, then the tape's."""
        w = {name: self.weights[f"decoder/unit_{i}/{name}"] for name in WEIGHTS}
        channels = state.shape[-1]

        def both(x, kernel, bias):
            of_state = convolve(x, kernel[:, :, :channels], bias)
            return of_state + convolve(tape, kernel[:, :, channels:], np.zeros_like(bias))

        gates, biases = w["gates_kernel"], w["gates_bias"]
        r = saturating_sigmoid(both(state, gates[..., :channels], biases[:channels]))
        u = saturating_sigmoid(both(state, gates[..., channels:], biases[channels:]))
        return u * state + (1 - u) * np.tanh(both(r * state, w["candidate_kernel"], w["candidate_bias"]))

    def logits(self, source, target):
        """Returns the logits, one row for each target id, given the ids before it."""
        state, rows = self.encode(source), []
        tape = np.zeros_like(state)
        for t in range(len(target)):
            for i in range(self.hparams.num_hidden_layers):
                state = self.write(state, tape, i)
            rows.append(state[min(t, len(state) - 1), 0])
            if t < len(tape):
                tape[t, 0] = self.word(target[t])
        return self.logits_of(rows)


class MarkovianNeuralGpu(ExtendedNeuralGpu):
    """The model between the two in Kaiser and Bengio 2016: a position of the memory, and the word before."""

    def logits(self, source, target):
        """Returns the logits, one row for each target id; beyond the memory, of the word before alone."""
        state, word_map = self.encode(source)[:, 0], self.weights["word_map/kernel"]
        memory = [*state, *[0.0] * len(target)]
        return self.logits_of([x @ word_map + y for x, y in zip(self.before(target), memory, strict=False)])
