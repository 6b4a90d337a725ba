"""Neural GPUs in numpy: one sequence, one step and one position at a time.

Written only from the papers (Kaiser and Sutskever 2016, Freivalds and Liepins 2017, Kaiser and Bengio 2016); no
padding or batches, float64.
"""

import math

import numpy as np

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
    still = state.shape[-1] - 2 * third
    out = np.zeros_like(state)
    for p in range(len(state)):
        out[p, :, :still] = state[p, :, :still]
        if p > 0:
            out[p, :, still : still + third] = state[p - 1, :, still : still + third]
        if p < len(state) - 1:
            out[p, :, still + third :] = state[p + 1, :, still + third :]
    return out


class NeuralGpu:
    """A model with weights given by path."""

    def __init__(self, weights, layers, rows, steps_per_position, diagonal):
        self.weights = {path: value.astype(np.float64) for path, value in weights.items()}
        self.layers, self.rows, self.steps_per_position, self.diagonal = layers, rows, steps_per_position, diagonal

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

    def run(self, ids):
        """Returns the first row of the last state, and the saturation summed over positions."""
        table = self.weights["source_embedding/table"]
        state = np.zeros((len(ids), self.rows, table.shape[1]))
        state[:, 0] = table[ids] * table.shape[1] ** 0.5
        if self.diagonal:
            state = np.clip(state, -1, 1)
        found = []
        for _ in range(self.steps_per_position * len(ids)):
            for i in range(self.layers):
                state, saturated = self.unit(state, i)
                found.append(saturated)
        return state[:, 0], np.mean(found, axis=0).sum()

    def logits(self, source, target):
        """One row for each id of the target; zeros beyond the last position, where there is no output."""
        hidden, _ = self.run(source)
        rows = hidden @ self.weights["output_embedding/table"].T
        return np.concatenate([rows, np.zeros((len(target), rows.shape[1]))])[: len(target)]


class ExtendedNeuralGpu(NeuralGpu):
    """The model of Kaiser and Bengio 2016: a |s| + b positions, and units that also read a tape of past outputs."""

    def __init__(self, weights, layers, rows, steps_per_position, a, b):
        super().__init__(weights, layers, rows, steps_per_position, diagonal=False)
        self.a, self.b, self.table = a, b, self.weights["target_embedding/table"]

    def word(self, i):
        return self.table[i] * self.table.shape[1] ** 0.5

    def encode(self, ids):
        """Returns the state of the encoder after `steps_per_position` steps for each position."""
        positions = math.ceil(round(self.a * len(ids), 6)) + self.b
        state = np.zeros((positions, self.rows, self.table.shape[1]))
        for p, i in enumerate(ids):
            state[p, 0] = self.word(i)
        for _ in range(self.steps_per_position * positions):
            for i in range(self.layers):
                state, _ = self.unit(state, i)
        return state

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
            for i in range(self.layers):
                state = self.write(state, tape, i)
            rows.append(self.table @ state[min(t, len(state) - 1), 0])
            if t < len(tape):
                tape[t, 0] = self.word(target[t])
        return np.array(rows)


class MarkovianNeuralGpu(ExtendedNeuralGpu):
    """The model between the two in Kaiser and Bengio 2016: a position of the memory, and the word before."""

    def logits(self, source, target):
        """Returns the logits, one row for each target id; beyond the memory, of the word before alone."""
        state, rows = self.encode(source), []
        for t in range(len(target)):
            hidden = self.word(target[t - 1]) @ self.weights["word_map/kernel"] if t else np.zeros(self.table.shape[1])
            rows.append(self.table @ (hidden + (state[t, 0] if t < len(state) else 0)))
        return np.array(rows)
