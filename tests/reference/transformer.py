"""The Transformer of *Attention Is All You Need* in plain numpy, float64, one sentence at a time.

Written from the paper's formulas, with loops for the paper's sums, so that it shares no implementation technique with
the library: no batches, padding, masks (a position simply sees a shorter list) or fused projections. Sentences are
lists of ids without padding. The names of weights are the library's variable paths without the model's name.

Legend: S source length, T target length, D width, H heads, V vocabulary.
"""

import contextlib
import dataclasses
import functools
import math

import numpy as np


@dataclasses.dataclass(frozen=True)
class Architecture:
    """The properties of a model that its weights do not determine."""

    heads: int
    encoder_layers: int
    decoder_layers: int
    norm: str = "post"
    norm_type: str = "layer"
    epsilon: float = 1e-6
    positions: str = "sinusoidal"
    source_starts: str = ""
    target_starts: str = ""
    layout: str = "interleaved"
    activation: str = "relu"
    shared_embedding: bool = True
    tied_softmax: bool = True
    window: int = 0
    decoder_layer: str = "self_attention"
    max_distance: int = 0
    relative_keys: int = 0
    kv_heads: int = 0
    decoder_heads: int = 0
    buckets: int = 0
    bucket_distance: int = 0
    start: str = "zero"
    start_id: int = 1


def sinusoid(position, width):
    """Section 3.5, as the imaginary and real parts of a rotating complex number for each pair of channels."""
    encoding = np.zeros(width)
    for pair in range(width // 2):
        wavelength = 2 * math.pi * 10000 ** (2 * pair / width)
        turned = np.exp(2j * math.pi * position / wavelength)
        encoding[2 * pair] = turned.imag
        encoding[2 * pair + 1] = turned.real
    return encoding


def split_sinusoid(position, width):
    """Tensor2Tensor's: geometric time scales from 1 to 10000, both ends included; all sines, then all cosines."""
    scales = np.geomspace(1.0, 10000.0, width // 2)
    return np.array([math.sin(position / s) for s in scales] + [math.cos(position / s) for s in scales])


def halved_sinusoid(position, width):
    """The waves of section 3.5, all sines, then all cosines."""
    turned = sinusoid(position, width)
    return np.concatenate([turned[0::2], turned[1::2]])


LAYOUTS = {"interleaved": sinusoid, "split": split_sinusoid, "halves": halved_sinusoid}


_RECORDS: list[list] = []


def softmax(x):
    """exp(x_i) / sum_j exp(x_j)."""
    powers = np.exp(x - x.max())
    for record in _RECORDS:
        record.append(powers / powers.sum())
    return powers / powers.sum()


@contextlib.contextmanager
def recorded_softmaxes():
    """Yields a list, to which the outputs of all softmaxes in the `with` block are added, in order."""
    _RECORDS.append([])
    try:
        yield _RECORDS[-1]
    finally:
        _RECORDS.pop()


def attend(query, keys, values, biases=0.0):
    """Equation 1 for one query of one head: the mean of the values, weighted by the similarity of query and keys.

    `keys` and `values` are those that the query sees; they may include vectors of their distance. `biases` of the
    distances are added to the scores.
    """
    weights = softmax(np.array([query @ key for key in keys]) / math.sqrt(len(query)) + biases)
    return sum(weight * value for weight, value in zip(weights, values, strict=True))


def bucket(distance, causal, buckets, longest):
    """Raffel et al. 2020, section 2.1: one bucket per small distance, then ranges that grow geometrically.

    The second half of the buckets is for keys after the query, if it sees any.
    """
    if not causal:
        buckets //= 2
        return bucket(-abs(distance), True, buckets, longest) + (buckets if distance > 0 else 0)
    single = buckets // 2
    if -distance < single:
        return max(0, -distance)
    starts = np.geomspace(single, longest, buckets - single + 1)[:-1]
    return single - 1 + sum(-distance > start - 1e-6 for start in starts)


def layer_norm(x, gamma, beta, epsilon):
    """Ba et al. 2016, equation 4: mean 0 and variance 1 over the channels, then gain and bias."""
    return gamma * (x - x.mean()) / math.sqrt(((x - x.mean()) ** 2).mean() + epsilon) + beta


def rms_norm(x, gamma, epsilon):
    """Zhang and Sennrich 2019, equation 4, with an epsilon: the channels over their root mean square, then a gain."""
    return gamma * x / math.sqrt(sum(channel**2 for channel in x) / len(x) + epsilon)


def activate(kind, x):
    """The non-linearity of the feed-forward sub-layer."""
    if kind == "relu":
        return np.maximum(x, 0.0)
    if kind == "silu":
        return x / (1.0 + np.exp(-x))
    if kind == "gelu_tanh":  # Hendrycks and Gimpel 2016, section 2
        return np.array([0.5 * v * (1.0 + math.tanh(math.sqrt(2.0 / math.pi) * (v + 0.044715 * v**3))) for v in x])
    if kind == "gelu_sigmoid":
        return np.array([v / (1.0 + math.exp(-1.702 * v)) for v in x])
    return np.array([0.5 * value * (1.0 + math.erf(value / math.sqrt(2.0))) for value in x])


class Transformer:
    """The model with one set of weights."""

    def __init__(self, weights, architecture):
        self.weights = {name: np.asarray(value, np.float64) for name, value in weights.items()}
        self.shape = architecture

    # === Section 3.1: the stacks ===

    def logits(self, source, target):
        """Returns (T, V); row t predicts target[t] from target[:t] and the whole source, unless that is None."""
        memory = None if source is None else self.encode(source)
        bias = self.weights.get("output_embedding/bias", 0.0)
        words = [self.places_of(source, self.shape.source_starts)] if "next_word/project/kernel" in self.weights else []
        return np.array([self.output_table() @ x + bias for x in self.decode(target, memory, *words)])

    def source_vectors(self, source):
        """Returns the vectors of the source's tokens."""
        table = "target_embedding" if self.shape.shared_embedding else "source_embedding"
        return [self.embed(table, token) for token in source]

    def before(self, target):
        """Returns the vectors of what the decoder reads: a start, and the targets but the last."""
        start = self.embed("target_embedding", self.shape.start_id if self.shape.start == "id" else 0)
        start = np.zeros_like(start) if self.shape.start == "zero" else start
        return [start, *(self.embed("target_embedding", token) for token in target[:-1])]

    def placed(self, vectors, places):
        return [self.place(x, place) for x, place in zip(vectors, places, strict=True)]

    def encode(self, source):
        """Returns the encoder's output, a list of S vectors."""
        states = self.placed(self.source_vectors(source), self.places_of(source, self.shape.source_starts))
        return self.stack("encoder", self.shape.encoder_layers, states, self.encoder_parts())

    def decode(self, target, memory, words=None):
        """Returns the decoder's output, a list of T vectors; it reads the next one of `words`, places of the source."""
        places = self.places_of([0, *target[:-1]], self.shape.target_starts, first=1)
        states = self.placed(self.before(target), places)
        if words is not None:
            states = [x + self.next_word(int(place), memory, words) for x, place in zip(states, places, strict=True)]
        return self.stack("decoder", self.shape.decoder_layers, states, self.decoder_parts(memory))

    def encoder_parts(self):
        """Returns the sub-layers of a layer by name, functions of the layer's name and the states."""
        return {"self_attention": self.attention, "ffn": self.feed_forward}

    def decoder_parts(self, memory):
        own = {"self_attention": functools.partial(self.attention, causal=True)}
        own = {"ssru": self.ssru} if self.shape.decoder_layer == "ssru" else own
        cross = {} if memory is None else {"encdec_attention": functools.partial(self.attention, memory=memory)}
        return own | cross | {"ffn": self.feed_forward}

    def stack(self, name, layers, states, parts):
        """Returns the states after a stack of layers."""
        for layer in range(layers):
            states = self.layer(f"{name}/layer_{layer}", states, parts)
        return self.finish(name, states)

    def layer(self, name, states, parts):
        for part, function in parts.items():
            states = self.sublayer(f"{name}/{part}", states, functools.partial(function, name))
        return states

    def sublayer(self, name, states, function):
        """LayerNorm(x + Sublayer(x)), or x + Sublayer(LayerNorm(x)) with pre-norms."""
        if self.shape.norm == "pre":
            added = function([self.norm(f"{name}_residual/norm", x) for x in states])
            return [x + y for x, y in zip(states, added, strict=True)]
        return [self.norm(f"{name}_residual/norm", x + y) for x, y in zip(states, function(states), strict=True)]

    def finish(self, stack, states):
        """The final norm of a stack, which only models with pre-norms have."""
        return [self.norm(f"{stack}/final_norm", x) for x in states] if self.shape.norm == "pre" else states

    def norm(self, name, x):
        if self.shape.norm_type == "rms":
            return rms_norm(x, self.weights[f"{name}/gamma"], self.shape.epsilon)
        return layer_norm(x, self.weights[f"{name}/gamma"], self.weights[f"{name}/beta"], self.shape.epsilon)

    # === Section 3.2: attention ===

    def attention(self, layer, states, memory=None, causal=False):
        """Section 3.2.2: the concatenated heads, projected by W^O."""
        name = f"{layer}/{'self_attention' if memory is None else 'encdec_attention'}"
        seen = states if memory is None else memory
        of_all = self.shape.heads if name.startswith("encoder") else self.shape.decoder_heads or self.shape.heads
        kv_heads = self.shape.kv_heads or of_all
        queries = [self.linear(f"{name}/project/query_", x) for x in states]
        keys = [self.linear(f"{name}/project/key_", x) for x in seen]
        if memory is None and self.shape.positions == "rotary":
            queries = [self.turned(x, position, of_all) for position, x in enumerate(queries)]
            keys = [self.turned(x, position, kv_heads) for position, x in enumerate(keys)]
        values = [self.linear(f"{name}/project/value_", x) for x in seen]
        outputs = []
        for position, query in enumerate(queries):
            places = self.places(position, len(seen), causal, memory is None)
            heads = []
            for head, part in enumerate(self.split(query, of_all)):
                # Ainslie et al. 2023, figure 2: the first heads of queries share the first head of keys and values.
                shared = head * kv_heads // of_all
                near = {
                    which: [
                        self.near(name, which, self.split(vectors[i], kv_heads)[shared], i - position)
                        + self.of_head(name, which, head, i - position)
                        for i in places
                    ]
                    for which, vectors in (("keys", keys), ("values", values))
                }
                biases = self.biases(layer, head, [i - position for i in places], causal) if memory is None else 0.0
                heads.append(attend(part, near["keys"], near["values"], biases))
            outputs.append(self.linear(f"{name}/output/", np.concatenate(heads)))
        return outputs

    def places(self, position, count, causal, is_self):
        """Returns the visible positions; section 4 of the paper: r / 2 to each side."""
        first, last = 0, position + 1 if causal else count
        if self.shape.window and is_self:
            first = max(0, position - self.shape.window // 2)
            last = min(last, position + self.shape.window // 2 + 1)
        return range(first, last)

    def turned(self, channels, position, count):
        """Su et al. 2021, equation 13: pairs of a head's channels are complex numbers, multiplied by e^(i m theta)."""
        heads = self.split(channels, count)
        size = len(heads[0])
        thetas = np.array([10000.0 ** (-2 * (pair - 1) / size) for pair in range(1, size // 2 + 1)])
        numbers = [(head[0::2] + 1j * head[1::2]) * np.exp(1j * position * thetas) for head in heads]
        return np.concatenate([np.stack([z.real, z.imag], axis=1).ravel() for z in numbers])

    def near(self, name, which, vector, distance):
        """Shaw et al. 2018, equations 1, 2 and 4: a key or value plus the vector of its clipped distance."""
        table = self.weights.get(f"{name}/relative_positions/{which}")
        if table is None:
            return vector
        most = self.shape.max_distance
        return vector + table[most + max(-most, min(most, distance))]

    def of_head(self, name, which, head, distance):
        """Huang et al. 2018, section 3.4: a head's own vector of a distance below k, for keys; none beyond."""
        vectors = self.weights.get(f"{name}/relative_keys/vectors") if which == "keys" else None
        far = self.shape.relative_keys
        return vectors[head][distance + far - 1] if vectors is not None and abs(distance) < far else 0.0

    def biases(self, layer, head, distances, causal):
        """Raffel et al. 2020, section 2.1: a scalar for each head and bucket, shared by the layers of a stack."""
        table = self.weights.get(f"{layer.partition('/')[0]}/relative_bias/table")
        if table is None:
            return 0.0
        sizes = (causal, self.shape.buckets, self.shape.bucket_distance)
        return np.array([table[bucket(distance, *sizes), head] for distance in distances])

    def split(self, channels, heads):
        size = len(channels) // heads
        return [channels[head * size : (head + 1) * size] for head in range(heads)]

    def linear(self, prefix, x):
        bias = self.weights.get(f"{prefix}bias", 0.0)
        return self.weights[f"{prefix}kernel"].T @ x + bias

    # === Kim et al. 2019: the recurrence in place of a decoder's self-attention ===

    def ssru(self, layer, states):
        """The recurrence, position by position: a forget gate f, a state c, and relu(c)."""
        gate_kernel, input_kernel = np.split(self.weights[f"{layer}/ssru/kernel"], 2, axis=1)
        c, outputs = np.zeros(len(states[0])), []
        for x in states:
            f = 1.0 / (1.0 + np.exp(-(gate_kernel.T @ x + self.weights[f"{layer}/ssru/gate_bias"])))
            c = f * c + (1.0 - f) * (input_kernel.T @ x)
            outputs.append(np.maximum(c, 0.0))
        return outputs

    # === Sections 3.3, 3.4 and 3.5 ===

    def feed_forward(self, layer, states):
        """Equation 2; with a third map, `linear`, equations 5 and 6 of Shazeer 2020."""
        outputs = []
        for x in states:
            inner = activate(self.shape.activation, self.linear(f"{layer}/ffn/inner/", x))
            if f"{layer}/ffn/linear/kernel" in self.weights:
                inner = [a * b for a, b in zip(inner, self.linear(f"{layer}/ffn/linear/", x), strict=True)]
            outputs.append(self.linear(f"{layer}/ffn/outer/", np.array(inner)))
        return outputs

    def embed(self, table, token):
        vector = self.weights[f"{table}/table"][token]
        return vector * math.sqrt(len(vector))

    def places_of(self, ids, starts, first=0):
        if self.shape.positions != "words":
            return range(len(ids))
        places, word, within = [], first, 0
        for i in ids:
            word, within = (word + 1, 0) if starts[i] == "1" else (word, min(within + 1, 15))
            places.append(word + within / 16)
        return places

    def next_word(self, number, memory, words):
        vectors = [x for x, place in zip(memory, words, strict=True) if int(place) == number]
        return np.mean(vectors, axis=0) @ self.weights["next_word/project/kernel"] if vectors else 0.0

    def place(self, x, position):
        if self.shape.positions in ("sinusoidal", "words"):
            return x + LAYOUTS[self.shape.layout](position, len(x))
        if self.shape.positions == "learned":
            return x + self.weights["positions/table"][position]
        return x

    def output_table(self):
        return self.weights["target_embedding/table" if self.shape.tied_softmax else "output_embedding/table"]


def smoothed_loss(logits, target, smoothing, kind="all"):
    """Returns the cross-entropy in nats, summed over positions, with explicit smoothed distributions.

    Szegedy et al. 2016, section 7: q'(k) = (1 - e) [k = y] + e / K; `others`: 1 - e for y, e / (K - 1) elsewhere.
    """
    total = 0.0
    for row, token in zip(np.asarray(logits, np.float64), target, strict=True):
        if kind == "all":
            wanted = np.full(len(row), smoothing / len(row))
            wanted[token] += 1.0 - smoothing
        else:
            wanted = np.full(len(row), smoothing / (len(row) - 1))
            wanted[token] = 1.0 - smoothing
        total -= float(wanted @ np.log(softmax(row)))
    return total
