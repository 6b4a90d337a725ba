"""Recurrent models in numpy, one step at a time, written only from the papers."""

import math

import numpy as np

from tests.reference.convolution import Model, relu, sigmoid
from tests.reference.transformer import softmax


# === LSTM: Hochreiter and Schmidhuber 1997, Gers et al. 2000, Bahdanau et al. 2015, Luong et al. 2015 ===
def lstm_step(x, h, c, w, u, b):
    """One step of the cell; returns the new h and c."""
    gate_in, gate_forget, candidate, gate_out = np.split(x @ w + h @ u + b, 4)
    c = sigmoid(gate_forget) * c + sigmoid(gate_in) * np.tanh(candidate)
    return sigmoid(gate_out) * np.tanh(c), c


class Lstm(Model):
    """The model, without attention or with one of two kinds."""

    direction = ""
    """Of the encoder, if no hparam says it."""

    def cell(self, path):
        return tuple(self.weights[f"{path}/{name}"] for name in ("input_kernel", "recurrent_kernel", "bias"))

    def zeros(self, path):
        """Returns h and c before the first step; a projection makes h narrower than c."""
        u = self.weights[f"{path}/recurrent_kernel"]
        return np.zeros(u.shape[0]), np.zeros(u.shape[1] // 4)

    def step(self, x, state, path, also_reads=None):
        """Returns the new h and c of a cell; `also_reads` is the path of a kernel for the last numbers of its input."""
        w, u, b = self.cell(path)
        w = w if also_reads is None else np.concatenate([w, self.weights[also_reads]])
        h, c = lstm_step(x, *state, w, u, b)
        projection = self.weights.get(f"{path}/projection_kernel")
        return (h if projection is None else h @ projection), c

    def run(self, xs, path):
        """Returns h at each position, and the last h and c."""
        state, hidden = self.zeros(path), []
        for x in xs:
            state = self.step(x, state, path)
            hidden.append(state[0])
        return hidden, *state

    def run_layers(self, xs):
        """Returns the hidden state of the top layer for each word, and the last (h, c) of each layer."""
        direction, finals = self.direction or self.hparams.encoder_direction, []
        for layer in range(self.hparams.num_hidden_layers):
            found = []
            if direction in ("forward", "bidirectional"):
                found.append(self.run(xs, f"encoder/layer_{layer}_forward/cell"))
            if direction in ("reversed", "bidirectional"):
                hidden, h, c = self.run(xs[::-1], f"encoder/layer_{layer}_backward/cell")
                found.append((hidden[::-1], h, c))
            xs = [np.concatenate(parts) for parts in zip(*(f[0] for f in found), strict=True)]
            finals.append((np.concatenate([f[1] for f in found]), np.concatenate([f[2] for f in found])))
        return xs, finals

    def context(self, query, memory):
        """Returns the attention context: the mean of the source's hidden states, weighted by the query's scores."""
        keys = self.weights["decoder/attention/memory_kernel"]
        if getattr(self.hparams, "attention_mechanism", "bahdanau") == "luong":
            scores = [h @ keys @ query for h in memory]
        else:
            v, w = self.weights["decoder/attention/score_kernel"], self.weights["decoder/attention/query_kernel"]
            scores = [float((np.tanh(query @ w + h @ keys) @ v)[0]) for h in memory]
        return sum(a * h for a, h in zip(softmax(np.array(scores)), memory, strict=True))

    def logits(self, source, target):
        """Returns the logits, one row for each target id, given the ids before it."""
        memory, states = self.run_layers(self.read(source))
        attention, rows = getattr(self.hparams, "attention_mechanism", None), []
        fed = np.zeros_like(self.word(0))
        for x in self.before(target):
            if attention == "bahdanau":
                fed = self.context(states[-1][0], memory)
            after = []
            for layer, state in enumerate(states):
                is_fed = layer == 0 and attention is not None
                x = np.concatenate([x, fed]) if is_fed else x
                after.append(self.step(x, state, f"decoder/cell_{layer}", "decoder/fed_kernel" if is_fed else None))
                x = after[-1][0]
            states = after
            if attention:
                context = fed if attention == "bahdanau" else self.context(x, memory)
                x = fed = np.tanh(np.concatenate([context, x]) @ self.weights["decoder/combine_kernel"])
            rows.append(x)
        return self.logits_of(rows)


class LstmBothWays(Lstm):
    """The same with an encoder that reads both ways, whatever its hparam says."""

    direction = "bidirectional"


# === Deep-Att: section 3 of Zhou et al. (2016, arXiv:1606.04199) ===
class DeepAtt(Lstm):
    """The model; each layer also passes on half of what its gates read."""

    def column(self, xs, number):
        """Returns f and h of the top layer for each word."""
        for layer in range(1, self.hparams.num_hidden_layers + 1):
            path = f"encoder/column_{number}_layer_{layer - 1}/cell"
            w, _, b = self.cell(path)
            way = 1 if (layer + number) % 2 == 1 else -1
            hs = self.run(xs[::way], path)[0][::way]
            fs = [x @ w + b for x in xs]
            xs = [self.joined(f, h) for f, h in zip(fs, hs, strict=True)]
        return fs, hs

    @staticmethod
    def joined(f, h):
        return np.concatenate([f[: len(f) // 2], h])

    def encode(self, ids):
        """Returns the vectors that the decoder attends to, one for each word."""
        project, xs = self.weights["encoder/output_kernel"], self.read(ids)
        (f_1, h_1), (f_2, h_2) = self.column(xs, 0), self.column(xs, 1)
        return [np.concatenate(parts) @ project for parts in zip(h_1, f_1, h_2, f_2, strict=True)]

    def logits(self, source, target):
        """Returns the logits, one row for each target id, given the ids before it."""
        memory, rows = self.encode(source), []
        states = [self.zeros(f"decoder/cell_{i}") for i in range(self.hparams.num_decoder_layers)]
        for x in self.before(target):
            x, after = np.concatenate([x, self.context(states[0][0], memory)]), []
            for layer, state in enumerate(states):
                path, fed = f"decoder/cell_{layer}", "decoder/fed_kernel" if layer == 0 else None
                after.append(self.step(x, state, path, fed))
                w, _, b = self.cell(path)
                w = w if fed is None else np.concatenate([w, self.weights[fed]])
                x = self.joined(x @ w + b, after[-1][0])
            states = after
            rows.append(x @ self.weights["decoder/combine_kernel"])
        return self.logits_of(rows)


# === GNMT: section 3 of Wu et al. (2016, arXiv:1609.08144) ===
class Gnmt(Lstm):
    """The model; layers are counted from 1, and those from the third on are residual."""

    def encode(self, ids):
        """Returns the output of the top layer for each word."""
        xs = self.read(ids)
        ahead, back = (
            self.run(xs, "encoder/layer_0_forward/cell")[0],
            self.run(xs[::-1], "encoder/layer_0_backward/cell")[0],
        )
        xs = [np.concatenate(pair) for pair in zip(ahead, back[::-1], strict=True)]
        for layer in range(2, self.hparams.num_hidden_layers + 1):
            hidden = self.run(xs, f"encoder/layer_{layer - 1}/cell")[0]
            xs = hidden if layer < 3 else [m + x for m, x in zip(hidden, xs, strict=True)]
        return xs

    def logits(self, source, target):
        """Returns the logits, one row for each target id, given the ids before it."""
        memory, rows = self.encode(source), []
        states = [self.zeros(f"decoder/cell_{i}") for i in range(self.hparams.num_hidden_layers)]
        for x in self.before(target):
            context, after = self.context(states[0][0], memory), []
            for i, state in enumerate(states):
                after.append(
                    self.step(np.concatenate([x, context]), state, f"decoder/cell_{i}", f"decoder/context_kernel_{i}")
                )
                x = after[-1][0] if i < 2 else after[-1][0] + x
            states = after
            rows.append(x)
        return self.logits_of(rows)


# === Grid LSTM: section 3 of Kalchbrenner, Danihelka and Graves (2015, arXiv:1507.01526) ===
def grid_step(hidden, memory, w, b):
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
                    grid_step(hidden, m, w, b) for (_, m), w, b in zip(entering, kernels, biases, strict=True)
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


# === Mixtures of experts, without noise: Shazeer et al. (2017, arXiv:1701.06538), section 2, appendices B, E, G ===
def best_experts(scores, chosen):
    """Returns the best experts or groups with their weights, the softmax of their scores."""
    best = np.argsort(-scores)[:chosen]
    weights = np.exp(scores[best])
    return list(zip(best, weights / weights.sum(), strict=True))


def mixture(weights, path, x, chosen):
    """Returns the sum of the outputs of the chosen experts, times their weights."""
    inner, inner_bias, outer, outer_bias = (
        weights[f"{path}/{name}"] for name in ("inner", "inner_bias", "outer", "outer_bias")
    )
    return sum(weight * (relu(x @ inner[e] + inner_bias[e]) @ outer[e] + outer_bias[e]) for e, weight in chosen)


class LstmMoe(Lstm):
    """The model, with gates of one or two levels."""

    def experts(self, x, stack):
        """x + sigmoid(sum of weights and experts)."""
        path, count = f"{stack}/experts/experts", self.hparams.experts_per_token
        if not self.hparams.expert_groups:
            chosen = best_experts(x @ self.weights[f"{path}/gate/gate_kernel"], count)
        else:
            below = np.split(self.weights[f"{path}/gate/secondary/gate_kernel"], self.hparams.expert_groups, axis=1)
            size, chosen = below[0].shape[1], []
            for group, weight in best_experts(x @ self.weights[f"{path}/gate/primary/gate_kernel"], count):
                chosen += [(group * size + e, weight * w) for e, w in best_experts(x @ below[group], count)]
        return x + sigmoid(mixture(self.weights, path, x, chosen))

    def encode(self, ids):
        """Returns the output of the top layer for each word."""
        xs, top = self.read(ids), self.hparams.num_hidden_layers - 1
        for layer in range(top + 1):
            xs = [self.experts(x, "encoder") for x in xs] if layer == top else xs
            hidden = self.run(xs, f"encoder/layer_{layer}/cell")[0]
            xs = [x + h for x, h in zip(xs, hidden, strict=True)]
        return xs

    def context(self, query, memory):
        """Returns the mean of the source's states, weighted by scores sum v_d tanh(x U)_d tanh(y W)_d."""
        u, w, v = (self.weights[f"decoder/attention/{name}_kernel"] for name in ("memory", "query", "score"))
        scores = [sum(v[:, 0] * np.tanh(query @ w) * np.tanh(y @ u)) for y in memory]
        return sum(a * y for a, y in zip(softmax(np.array(scores)), memory, strict=True))

    def logits(self, source, target):
        """Returns the logits, one row for each target id, given the ids before it."""
        memory, rows = self.encode(source), []
        paths = ["decoder/bottom", *(f"decoder/layer_{i}/cell" for i in range(1, self.hparams.num_hidden_layers - 1))]
        states = [self.zeros(path) for path in paths]
        for x in self.before(target):
            read = np.concatenate([x, self.context(states[0][0], memory)])
            states[0] = self.step(read, states[0], paths[0], "decoder/context_kernel")
            x = self.experts(x + states[0][0], "decoder")
            for layer, path in enumerate(paths[1:], start=1):
                states[layer] = self.step(x, states[layer], path)
                x = x + states[layer][0]
            rows.append(x)
        return self.logits_of(rows)


# === Recurrent continuous translation models: sections 3 and 4 of Kalchbrenner and Blunsom (2013) ===
class Rctm(Model):
    """RCTM I, or RCTM II if the source is unfolded."""

    def __init__(self, weights, hparams):
        super().__init__(weights, hparams)
        self.f = {"sigmoid": sigmoid, "tanh": np.tanh}[hparams.activation]
        self.sizes = range(2, hparams.num_hidden_layers + 2)

    def shrunk(self, xs):
        """Returns the columns after the convolutions."""
        for size in self.sizes:
            kernel = self.weights[f"convolutions/windows_{size}/kernel"]
            if len(xs) > 1:
                windows = [xs[i : i + size] for i in range(max(len(xs) - size + 1, 1))]
                xs = [self.f(sum(k * x for k, x in zip(kernel, window, strict=False))) for window in windows]
        return xs

    def grown(self, xs):
        """Returns the columns after the inverse convolutions."""
        for size in reversed(self.sizes):
            kernel = self.weights[f"inverse/windows_{size}/kernel"]
            padded = [np.zeros_like(xs[0])] * (size - 1) + xs + [np.zeros_like(xs[0])] * (size - 1)
            xs = [self.f(sum(kernel[w] * padded[i + w] for w in range(size))) for i in range(len(xs) + size - 1)]
        return xs

    def conditions(self, source, length):
        """Returns the vectors that condition each target word."""
        xs = self.shrunk(self.read(source))
        if not hasattr(self.hparams, "unfolding_factor"):
            return [np.mean(xs, axis=0)] * length
        columns = math.ceil(round(self.hparams.unfolding_factor * len(source), 6)) + self.hparams.unfolding_offset
        grams = max(columns - sum(size - 1 for size in self.sizes), 1)
        kernel, bias = self.weights["translation/kernel"], self.weights["translation/bias"]
        stretched = [self.f(xs[int((j + 0.5) / grams * len(xs))] @ kernel + bias) for j in range(grams)]
        found = self.grown(stretched)[:columns]
        return (found + [np.zeros_like(found[0])] * length)[:length]

    def logits(self, source, target):
        """Returns the logits, one row for each target id, given the ids before it."""
        i, s, r, b = (
            self.weights[f"recurrence/{name}"]
            for name in ("input_kernel", "condition_kernel", "recurrent_kernel", "bias")
        )
        rows = [np.zeros_like(self.word(0))]
        for x, c in zip(self.before(target), self.conditions(source, len(target)), strict=True):
            rows.append(self.f(x @ i + rows[-1] @ r + b + c @ s))
        return self.logits_of(rows[1:])
