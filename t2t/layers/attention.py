"""Attention: section 3.2 of *Attention Is All You Need*.

Legend: B batch, T length of the queries, S length of the keys, D width, H heads, J heads of keys and values (H or a
divisor of it), K key channels and U value channels of one head. In a step of decoding: N rows of one position each; see
`t2t.layers.cache`.
"""

import functools
import itertools
import operator

import keras
from keras import ops

from t2t.layers.cache import CachingLayer, KeysValues, StepCache
from t2t.layers.dropout import Dropout
from t2t.layers.long_attention import WeightDropout, blockwise_attention, local_attention
from t2t.layers.masks import (
    CAUSAL,
    EVERYTHING,
    BlockWindow,
    Span,
    float32_product,
    key_offsets,
    probabilities,
    span_keep,
)
from t2t.layers.mode import current_mode
from t2t.layers.positions import RelativeBias, RelativeKeys, RelativePositions, rotate


class HeadProjection(keras.layers.Layer):
    """Projects hidden states into heads, once for each name: the W^Q, W^K, W^V of section 3.2.2.

    Each name has its kernel (D, H*K) and, with `use_bias`, a bias; projections that are called together are one matrix
    product. `heads` gives (H, K) by name.
    """

    def __init__(self, heads: dict[str, tuple[int, int]], use_bias: bool, **kwargs):
        super().__init__(**kwargs)
        self.heads, self.use_bias = dict(heads), use_bias
        self.channels = {name: count * size for name, (count, size) in heads.items()}

    def build(self, input_shape):
        """Creates the kernels, each Glorot uniform, for inputs (..., D)."""
        self.kernels, self.biases = {}, {}
        for name, channels in self.channels.items():
            self.kernels[name] = self.add_weight(name=f"{name}_kernel", shape=(input_shape[-1], channels))
            if self.use_bias:
                self.biases[name] = self.add_weight(name=f"{name}_bias", shape=(channels,), initializer="zeros")

    def call(self, x_BTD, names: tuple[str, ...], fused=None):
        """Returns one (B, H, T, K) tensor for each of `names`, in their order.

        Args:
            x_BTD: (B, T, D).
            names: of projections.
            fused: the result of `fused(names)`, if already computed.
        """
        kernel, *biases = fused or self.fused(names)
        # As rows of a matrix: with unknown sizes, a product with more axes costs a dozen more small operations.
        y = ops.matmul(ops.reshape(x_BTD, (-1, x_BTD.shape[-1])), kernel)
        y = y + biases[0] if biases else y
        sizes = [self.channels[name] for name in names]
        # With TensorFlow, parts of given sizes cost a dozen more small operations, too.
        cuts = len(names) if len(set(sizes)) == 1 else list(itertools.accumulate(sizes))[:-1]
        parts = ops.split(y, cuts, axis=-1) if len(names) > 1 else (y,)
        # A number of positions that is known, as in decoding, needs no operations.
        length = x_BTD.shape[1] if isinstance(x_BTD.shape[1], int) else ops.shape(x_BTD)[1]
        return tuple(self._split_heads(name, part, length) for name, part in zip(names, parts, strict=True))

    def fused(self, names: tuple[str, ...]):
        """Returns one kernel for several projections, and one bias if they have biases."""
        kernel = ops.concatenate([ops.convert_to_tensor(self.kernels[name]) for name in names], axis=1)
        if not self.use_bias:
            return (kernel,)
        return kernel, ops.concatenate([ops.convert_to_tensor(self.biases[name]) for name in names], axis=0)

    def _split_heads(self, name: str, y_ND, length):
        count, size = self.heads[name]
        if count == 1:  # converters to ONNX mishandle the transposition of an axis of size 1
            return ops.reshape(y_ND, (-1, 1, length, size))
        return current_mode().kernels.exchange(ops.reshape(y_ND, (-1, length, count, size)))


BLOCKWISE_FROM = 2048**2
"""From so many scores per head on, attention is computed block by block."""


def attention_weights(q_BHTK, k_BJSK, keep, layer: str = "", added_BHTS=None):
    """Returns softmax(q k^T / sqrt(K)) (section 3.2.1, equation 1), (B, H, T, S) float32; see `probabilities`.

    `added_BHTS` is added to the scores; None for nothing.
    """
    scale = float(k_BJSK.shape[-1]) ** -0.5
    scores = _by_head(float32_product, q_BHTK * scale, k_BJSK)
    return probabilities(scores if added_BHTS is None else scores + added_BHTS, keep, layer)


def _by_head(product, x_BHTC, y_BJSC):
    """Multiplies each head with its keys or values, (B, H, T, ...); H / J neighbouring heads share them."""
    heads, shared = x_BHTC.shape[1], y_BJSC.shape[1]
    if heads == shared:
        return product(x_BHTC, y_BJSC)
    # Rows of heads that share keys are adjacent: treated as rows of one head, they need no copies of the keys.
    batch, _, rows, channels = ops.shape(x_BHTC)
    found = product(ops.reshape(x_BHTC, (batch, shared, heads // shared * rows, channels)), y_BJSC)
    return ops.reshape(found, (batch, heads, rows, ops.shape(found)[-1]))


class MultiHeadAttention(CachingLayer):
    """Multi-head attention (section 3.2.2): Concat(head_1..head_h) W^O, head_i = Attention(x W_i^Q, y W_i^K, y W_i^V).

    Args:
        width: D of the output.
        num_heads: H.
        key_channels: H*K, channels of all queries together.
        value_channels: H*U, channels of the outputs of all heads together.
        dropout: rate on the attention weights.
        use_bias: whether the four projections have biases.
        longest: most positions of an input. If lengths are unknown when the program is built, it includes blockwise
            attention only if they may be long.
        span: which keys each query may attend to, by position.
        max_relative_position: k of `RelativePositions`, in self-attention; 0 = no relative positions. With them
            attention is always computed over whole matrices.
        relative_keys: k of `RelativeKeys`, in self-attention; 0 = none. With them, too.
        rotary: whether self-attention rotates queries and keys by their positions, see `rotate`.
        num_kv_heads: J; 0 = H. Each head of keys and values serves H / J neighbouring heads of queries (Ainslie et al.
            2023, arXiv:2305.13245, section 2.2), and keys and values have J / H of the channels.
        is_cached: whether decoding caches keys and values; None = if the span is causal. A span of each position alone
            is causal in a decoder, and not in an encoder.
        relative_bias: added to the scores of self-attention. The layers of a stack, which owns and builds it, share it.
    """

    def __init__(
        self,
        width: int,
        num_heads: int,
        key_channels: int,
        value_channels: int,
        dropout: float,
        use_bias: bool,
        longest: int = 0,
        span: Span | BlockWindow = EVERYTHING,
        max_relative_position: int = 0,
        relative_keys: int = 0,
        rotary: bool = False,
        num_kv_heads: int = 0,
        is_cached: bool | None = None,
        relative_bias: RelativeBias | None = None,
        **kwargs,
    ):
        super().__init__(**kwargs)
        self.is_cached = span.after == 0 if is_cached is None else is_cached
        self.longest, self.span, self.rotary = longest, span, rotary
        self.num_heads, self.num_kv_heads, self.value_channels = num_heads, num_kv_heads or num_heads, value_channels
        self.head_sizes = (key_channels // num_heads, value_channels // num_heads)
        key, value = ((self.num_kv_heads, size) for size in self.head_sizes)
        heads = {"query": (num_heads, self.head_sizes[0]), "key": key, "value": value}
        self.project = HeadProjection(heads, use_bias, dtype=self.dtype_policy, name="project")
        self.output_layer = keras.layers.Dense(width, use_bias=use_bias, dtype=self.dtype_policy, name="output")
        self.dropout = Dropout(dropout, dtype=self.dtype_policy, name="dropout")
        self.blockwise_from = 0
        """From so many scores per head on, this layer computes block by block; 0 = `BLOCKWISE_FROM`."""
        self.relative_bias = relative_bias
        self.relative_positions: RelativePositions | None = None
        if max_relative_position:
            sizes = (max_relative_position, *self.head_sizes)
            self.relative_positions = RelativePositions(*sizes, dtype=self.dtype_policy, name="relative_positions")
        self.relative_keys: RelativeKeys | None = None
        if relative_keys:
            of_head = (num_heads, relative_keys, self.head_sizes[0])
            self.relative_keys = RelativeKeys(
                *of_head, causal=span.after == 0, dtype=self.dtype_policy, name="relative_keys"
            )

    def build(self, input_shape):
        """Builds the projections for inputs (B, T, D)."""
        self.project.build(input_shape)
        self.output_layer.build((*input_shape[:-1], self.value_channels))
        self.dropout.build()
        for of_distances in filter(None, (self.relative_positions, self.relative_keys)):
            of_distances.build()

    def call(self, x, memory: KeysValues | None = None, keep=None, seed=None, cache: StepCache | None = None):
        """Returns the output of attention from `x`: (B, T, D), or in a decoding step (N, D).

        Args:
            x: (B, T, D), or with a cache (N, D).
            memory: keys and values of S positions, of `keys_values`; None for self-attention, where they come from `x`.
            keep: (B, 1, 1, S) or (B, 1, T, S) bool, True = may be attended to; None for all. Blockwise and windowed
                attention take only the former: with the latter, attention is one matrix product.
            seed: of dropout.
            cache: if `x` is the position of a decoding step.
        """
        if cache is not None:
            return self._step(x, memory, keep, cache)
        if memory is None:
            query, memory = self._project_self(x, ops.arange(ops.shape(x)[1]))
        else:
            (query,) = self.project(x, names=("query",))
        return self._output(self._attend(query, memory, keep, seed))

    def _step(self, x_ND, memory: KeysValues | None, keep, cache: StepCache):
        offset_1S = None
        if memory is None:
            here_1 = ops.reshape(cache.position, (1,))
            query, new = self._project_self(cache.by_group(x_ND), here_1, cache.weights[self.path])
            memory, keep = cache.extend_keys_values(self.path, new), cache.keep(self.span)
            offset_1S = cache.key_offsets() if self._reads_offsets else None
        else:
            (query,) = self.project(cache.by_sentence(x_ND, ops.shape(memory.keys)[0]), names=("query",))
        found = self._output(self._weighted(query, memory, keep, offset_1S, None))
        return ops.reshape(found, (-1, found.shape[-1]))

    def _project_self(self, x_BTD, position_T, fused=None):
        """Returns the queries, and the keys and values, of self-attention at positions."""
        query, key, value = self.project(x_BTD, names=("query", "key", "value"), fused=fused)
        if self.rotary:
            query, key = rotate(query, position_T), rotate(key, position_T)
        return query, KeysValues(key, value)

    def keys_values(self, y_BSD) -> KeysValues:
        """Returns the keys and values of (B, S, D)."""
        return KeysValues(*self.project(y_BSD, names=("key", "value")))

    def fused_weights(self):
        """Returns the fused weights of self-attention, made once for many steps."""
        return self.project.fused(("query", "key", "value"))

    def empty_entry(self, rows, beams: int, length) -> KeysValues | None:
        """Returns keys and values (G, J, L*K, channels of a head) zeros; None where it is not cached."""
        if not self.is_cached:
            return None
        shape = (rows // beams, self.num_kv_heads, length * beams)
        return KeysValues(*(ops.zeros((*shape, size), dtype=self.compute_dtype) for size in self.head_sizes))

    @property
    def _reads_offsets(self) -> bool:
        """Whether the distances of keys matter."""
        of_distances = (self.relative_positions, self.relative_keys, self.relative_bias)
        return any(layer is not None for layer in of_distances)

    def _attend(self, q_BHTK, memory: KeysValues, keep, seed):
        """Returns (B, H, T, U) of whole sequences; long ones are computed by blocks or windows."""
        fused = self._fused(q_BHTK, memory, keep, seed)
        if fused is not None:
            return fused
        queries, keys = ops.shape(q_BHTK)[2], ops.shape(memory.keys)[2]
        grid, mode = self.span.grid, current_mode()

        def full_attention():
            query_T, key_S = ops.arange(queries), ops.arange(keys)
            seen = span_keep(query_T, key_S, self.span)
            joint_keep = keep if seen is None else seen if keep is None else ops.logical_and(keep, seen)
            offset_TS = key_offsets(query_T, key_S) if self._reads_offsets else None
            return self._weighted(q_BHTK, memory, joint_keep, offset_TS, seed)

        def in_parts():
            copies = self.num_heads // self.num_kv_heads
            k, v = memory if copies == 1 else (ops.repeat(x, copies, axis=1) for x in memory)
            if grid is not None:
                drop = functools.partial(self.dropout, seed=seed)
                return local_attention(q_BHTK, k, v, keep, self.span, drop)
            dropout = WeightDropout(self.dropout.rate, self.dropout.own_seed(seed)) if self.dropout.acts(seed) else None
            return blockwise_attention(q_BHTK, k, v, keep, self.span, dropout)

        # Windows are worth it once they are smaller than the whole.
        shortest = (self.blockwise_from or BLOCKWISE_FROM) if grid is None else (grid.positions + 1) ** 2
        is_long = queries * keys >= shortest
        never_long = not isinstance(is_long, bool) and self.longest**2 < shortest
        by_query = keep is not None and keep.shape[2] != 1  # packed rows, which are short
        if never_long or by_query or self._reads_offsets or mode.record is not None:
            is_long = False
        if grid is None and (mode.for_converters or not mode.blockwise_attention):
            is_long = False
        if isinstance(is_long, bool):
            return in_parts() if is_long else full_attention()
        return ops.cond(is_long, in_parts, full_attention)

    def _fused(self, q_BHTK, memory: KeysValues, keep, seed):
        """Returns (B, H, T, U) of one operation; None where the backend has none that computes the same."""
        mode = current_mode()
        is_plain = self.span in (EVERYTHING, CAUSAL) and not self._reads_offsets and mode.record is None
        if not is_plain or self.dropout.acts(seed):
            return None
        return mode.kernels.attention(q_BHTK, *memory, keep, self.span == CAUSAL)

    def _weighted(self, q_BHTK, memory: KeysValues, keep, offset_PS, seed):
        relative = self.relative_positions
        added = [of.scores(q_BHTK, offset_PS) for of in (relative, self.relative_keys) if of is not None]
        if self.relative_bias is not None:
            added.append(self.relative_bias(offset_PS))
        added_BHTS = functools.reduce(operator.add, added) if added else None
        weights = self.dropout(attention_weights(q_BHTK, memory.keys, keep, self.path, added_BHTS), seed=seed)
        weights = ops.cast(weights, memory.values.dtype)
        found = _by_head(current_mode().kernels.product, weights, memory.values)
        return found + relative.weighted(weights, offset_PS) if relative else found

    def _output(self, found_BHTU):
        queries = ops.shape(found_BHTU)[2]
        found = found_BHTU if self.num_heads == 1 else current_mode().kernels.exchange(found_BHTU)
        found = ops.reshape(found, (-1, self.value_channels))
        return ops.reshape(self.output_layer(found), (-1, queries, self.output_layer.units))
