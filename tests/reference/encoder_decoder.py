"""A Transformer with random weights in plain numpy, float64; `token_toolkits` writes it in the formats of toolkits.

Written from the papers (Vaswani et al. 2017; Shaw et al. 2018 for relative positions; Shazeer 2020 for gates; Kim et
al. 2019 for the SSRU), for one sentence at a time and without masks, so that it shares no code with the library.

Legend: S source length, T target length, D width, F inner width, H heads, K channels of a head, V vocabulary.
"""

import math

import numpy as np

from tests.reference.marian import log_softmax, multi_head

WIDTH, INNER, HEADS, LAYERS, LONGEST, DISTANCE = 8, 12, 2, 2, 30, 3
SOURCE, TARGET = (
    ["the", "dog", "runs", "a", "cat", "sees", "old"],
    ["der", "Hund", "läuft", "eine", "Katze", "sieht", "alt", "zu"],
)
_ACTIVATIONS = {
    "relu": lambda x: np.maximum(x, 0), "silu": lambda x: x / (1 + np.exp(-x)),
    "gelu": lambda x: x * 0.5 * (1 + np.vectorize(math.erf)(x / np.sqrt(2))),
}  # fmt: skip


def waves(kind, first=0):
    """Returns sinusoids (L, D): `interleaved`, `halves` (sines first) or `concat` (sines first, other frequencies).

    Positions are counted from `first`.
    """
    pairs = WIDTH // 2
    powers = [2 * i / WIDTH if kind != "concat" else i / (pairs - 1) for i in range(pairs)]
    angles = np.array([[place / 10000**power for power in powers] for place in range(first, first + LONGEST)])
    parts = [np.sin(angles), np.cos(angles)]
    if kind != "interleaved":
        return np.concatenate(parts, axis=1)
    return np.stack(parts, axis=2).reshape(LONGEST, WIDTH)


class Network:
    """The network. A map is a matrix (out, in) and a bias or None; a norm is a gain and an offset or None.

    Args:
        sizes: vocabulary sizes of inputs and targets.
        activation: a key of the dictionary above.
        gated: whether feed-forward layers have a third map, the gate.
        attention_bias: whether attention maps have biases.
        ffn_bias: whether feed-forward maps have biases.
        rms: whether norms are RMS norms, without mean and offset.
        epsilon: epsilon of norms.
        pre_norm: whether norms precede the sub-layers.
        positions: kind of sinusoids; empty for relative positions and unscaled embeddings.
        first_position: index of the first position.
        ssru: whether decoder layers have an SSRU instead of self-attention.
        one_table: whether inputs, targets and output layer share a table.
        output_bias: whether the output layer has a bias.
        decoder: number of heads and inner width of the decoder.
    """

    def __init__(
        self, sizes, *, activation="relu", gated=False, attention_bias=True, ffn_bias=True, rms=False, epsilon=1e-6,
        pre_norm=True, positions="interleaved", first_position=0, ssru=False, one_table=False, output_bias=True,
        decoder=(HEADS, INNER),
    ):  # fmt: skip
        self.rng = np.random.default_rng(5)
        self.activation, self.rms, self.epsilon, self.pre_norm = _ACTIVATIONS[activation], rms, epsilon, pre_norm
        self.waves = waves(positions, first_position) if positions else np.zeros((LONGEST, WIDTH))
        self.scale = np.sqrt(WIDTH) if positions else 1.0
        self.tables = [self._random(size, WIDTH) for size in (*sizes, sizes[1])]
        if one_table:
            self.tables = [self.tables[0]] * 3
        self.output_bias = self._random(sizes[1]) if output_bias else np.zeros(sizes[1])
        self.layers, self.decoder_heads = {"encoder": [], "decoder": []}, decoder[0]
        for side, layers in self.layers.items():
            inner = INNER if side == "encoder" else decoder[1]
            for _ in range(LAYERS):
                layer = {
                    "ffn": {"inner": self._map(inner, WIDTH, ffn_bias), "outer": self._map(WIDTH, inner, ffn_bias)}
                }
                if gated:
                    layer["ffn"]["gate"] = self._map(inner, WIDTH, ffn_bias)
                for part in ("self", "cross")[: 1 + (side == "decoder")]:
                    names = ("query", "key", "value", "out")
                    layer[part] = {name: self._map(WIDTH, WIDTH, attention_bias) for name in names}
                if ssru and side == "decoder":
                    layer["self"] = {"forget": self._map(WIDTH, WIDTH, True), "fresh": self._map(WIDTH, WIDTH, False)}
                elif not positions:
                    layer["self"]["distances"] = self._random(2 * DISTANCE + 1, WIDTH // HEADS)
                layer["norms"] = {part: self._norm() for part in (*[p for p in ("self", "cross") if p in layer], "ffn")}
                layers.append(layer)
        self.final = {side: self._norm() for side in self.layers} if pre_norm else {}

    def log_probs(self, source, target, start):
        """Returns (T, V) for target ids with end of sequence; each position sees `start` and the targets before it."""
        memory = self._stack("encoder", self._embed(0, source), None)
        hidden = self._stack("decoder", self._embed(1, [start, *target[:-1]]), memory)
        logits = hidden @ self.tables[2].T.astype(np.float64) + self.output_bias
        return log_softmax(logits)

    def _embed(self, table, ids):
        return self.tables[table][ids].astype(np.float64) * self.scale + self.waves[: len(ids)]

    def _stack(self, side, x, memory):
        heads = HEADS if memory is None else self.decoder_heads
        for layer in self.layers[side]:
            x = self._residual(
                x, layer["norms"]["self"], lambda y, own=layer["self"]: self._self(own, y, memory is not None, heads)
            )
            if memory is not None:
                cross = layer["cross"]
                x = self._residual(
                    x, layer["norms"]["cross"], lambda y, own=cross: self._attend(own, y, memory, False, heads)
                )
            x = self._residual(x, layer["norms"]["ffn"], lambda y, own=layer["ffn"]: self._feed_forward(own, y))
        return self._normed(x, self.final[side]) if self.pre_norm else x

    def _residual(self, x, norm, sublayer):
        return x + sublayer(self._normed(x, norm)) if self.pre_norm else self._normed(x + sublayer(x), norm)

    def _self(self, part, x, causal, heads):
        if "forget" not in part:
            return self._attend(part, x, x, causal, heads)
        state, rows = np.zeros(WIDTH), []
        for row in x:
            forget = 1 / (1 + np.exp(-_apply(part["forget"], row)))
            state = forget * state + (1 - forget) * _apply(part["fresh"], row)
            rows.append(np.maximum(state, 0))
        return np.array(rows)

    def _attend(self, part, x, memory, causal, heads):
        maps = (_apply(part[name], of) for name, of in (("query", x), ("key", memory), ("value", memory)))

        def near(distances):
            table = part.get("distances", np.zeros((2 * DISTANCE + 1, 1)))
            return table[np.clip(distances, -DISTANCE, DISTANCE) + DISTANCE]

        return _apply(part["out"], multi_head(*maps, heads, causal, near))

    def _feed_forward(self, part, x):
        inner = self.activation(_apply(part["inner"], x))
        return _apply(part["outer"], inner * _apply(part["gate"], x) if "gate" in part else inner)

    def _normed(self, x, norm):
        gain, offset = norm
        x = x if self.rms else x - x.mean(-1, keepdims=True)
        x = x / np.sqrt((x**2).mean(-1, keepdims=True) + self.epsilon) * gain
        return x if offset is None else x + offset

    def _map(self, outputs, inputs, has_bias):
        return self._random(outputs, inputs), self._random(outputs) if has_bias else None

    def _norm(self):
        return 1 + self._random(WIDTH), None if self.rms else self._random(WIDTH)

    def _random(self, *shape):
        return self.rng.normal(0.0, 0.5, shape).astype(np.float32)


def _apply(linear, x):
    matrix, bias = linear
    return x @ matrix.T.astype(np.float64) + (0 if bias is None else bias)
