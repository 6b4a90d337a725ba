"""A decoder of recurrent cells, with additive or multiplicative attention to the encoder's output.

One step function serves training on whole sequences and decoding.

Legend: B batch, S source length, T target length, C input channels, D width, N rows decoded together, Q rows of each
sentence (N = B * Q), G gate inputs of a cell.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import keras
from keras import ops

from t2t.layers.cache import CachingLayer, StepCache
from t2t.layers.dropout import Dropout
from t2t.layers.loops import scan
from t2t.layers.masks import float32_product, probabilities
from t2t.layers.recurrent import CELLS, CellState
from t2t.layers.tensors import Tensor


class Memory(NamedTuple):
    """An encoded source, ready to be attended to."""

    keys: Tensor
    """(B, S, D): compared with queries in the scores."""
    values: Tensor
    """(B, S, D): the encoder's output."""
    keep: Tensor
    """(B, S) bool, True at data."""


class MemoryAttention(keras.layers.Layer):
    """Context vectors c_t = sum_s a_ts h_s with a_t = softmax of scores (Bahdanau et al. 2015, equations 5 and 6)."""

    def __init__(self, width: int, **kwargs):
        super().__init__(**kwargs)
        self.width = width

    def build(self, input_shape):
        """Creates the projection of the memory, (D, D) Glorot uniform."""
        self.memory_kernel = self.add_weight(name="memory_kernel", shape=(self.width, self.width))

    def memory(self, values_BSD, keep_BS) -> Memory:
        """Returns the encoder's output (B, S, D) with its keys; positions where `keep_BS` is False get no weight."""
        return Memory(ops.matmul(values_BSD, ops.cast(self.memory_kernel, values_BSD.dtype)), values_BSD, keep_BS)

    def stepper(self, memory: Memory) -> Callable:
        """Returns `attend(query_ND) -> (N, D)`; row n belongs to sentence n // (N / B)."""
        score = self.scorer(memory.keys)
        keep_B1S = memory.keep[:, None, :]
        sentences = ops.shape(memory.keys)[0]

        def attend(query_ND):
            scores_BQS = score(ops.reshape(query_ND, (sentences, -1, self.width)))
            weights_BQS = probabilities(scores_BQS, keep_B1S, self.path)
            found_BQD = ops.matmul(ops.cast(weights_BQS, memory.values.dtype), memory.values)
            return ops.reshape(found_BQD, (-1, self.width))

        return attend

    def scorer(self, keys_BSD) -> Callable:
        """Returns `score(query_BQD) -> (B, Q, S)` float32."""
        raise NotImplementedError


class AdditiveAttention(MemoryAttention):
    """score(s, h) = v^T tanh(W s + U h) (Bahdanau et al. 2015, appendix A.1.2)."""

    def build(self, input_shape):
        """Creates U, W and v, Glorot uniform."""
        super().build(input_shape)
        self.query_kernel = self.add_weight(name="query_kernel", shape=(self.width, self.width))
        self.score_kernel = self.add_weight(name="score_kernel", shape=(self.width, 1))

    def scorer(self, keys_BSD) -> Callable:
        """Returns `score(query_BQD) -> (B, Q, S)` float32."""
        query_kernel, score_kernel = (ops.cast(w, keys_BSD.dtype) for w in (self.query_kernel, self.score_kernel))
        score_kernel_1D = ops.transpose(score_kernel)

        def score(query_BQD):
            sums_BQSD = ops.matmul(query_BQD, query_kernel)[:, :, None] + keys_BSD[:, None]
            rows_ND = ops.reshape(ops.tanh(sums_BQSD), (-1, self.width))
            return ops.reshape(float32_product(rows_ND, score_kernel_1D), ops.shape(sums_BQSD)[:-1])

        return score


class FactoredAttention(AdditiveAttention):
    """score(s, h) = sum over d of v_d tanh(W s)_d tanh(U h)_d (Shazeer et al. 2017, arXiv:1701.06538, appendix G).

    All scores are one matrix product, whereas `AdditiveAttention` needs a tanh for every pair.
    """

    def memory(self, values_BSD, keep_BS) -> Memory:
        """Returns the encoder's output (B, S, D) with its keys, tanh(U h); see the base class."""
        memory = super().memory(values_BSD, keep_BS)
        return memory._replace(keys=ops.tanh(memory.keys))

    def scorer(self, keys_BSD) -> Callable:
        """Returns `score(query_BQD) -> (B, Q, S)` float32."""
        query_kernel, score_kernel = (ops.cast(w, keys_BSD.dtype) for w in (self.query_kernel, self.score_kernel))

        def score(query_BQD):
            return float32_product(ops.tanh(ops.matmul(query_BQD, query_kernel)) * score_kernel[:, 0], keys_BSD)

        return score


class MultiplicativeAttention(MemoryAttention):
    """score(h_t, h_s) = h_t^T W h_s, called general (Luong et al. 2015, equation 8)."""

    def scorer(self, keys_BSD) -> Callable:
        """Returns `score(query_BQD) -> (B, Q, S)` float32."""
        return lambda query_BQD: float32_product(query_BQD, keys_BSD)


ATTENTION = {"bahdanau": AdditiveAttention, "luong": MultiplicativeAttention}


class DecoderState(NamedTuple):
    """The state of the decoder after a step."""

    layers: tuple[CellState, ...]
    output: Tensor
    """(N, D): the last step's input of the output layer."""


class RecurrentDecoder(CachingLayer):
    """Recurrent layers that start from given states, with or without attention to an encoder's output.

    `bahdanau` attends with the top layer's state before the step, and the bottom layer reads the context with the word
    (Bahdanau et al. 2015, appendix A.1.2). `luong` attends with the state after the step, and the bottom layer reads
    the previous output with the word (Luong et al. 2015, section 3.3, input feeding). In both the output is
    tanh(W_c [c_t; h_t]) (Luong et al. 2015, equation 5), where Bahdanau et al. have a maxout layer; without attention
    it is h_t of the top layer.

    Dropout acts on the inputs of every layer and on the output, not on what is fed back.
    """

    def __init__(
        self, cell: str, width: int, num_layers: int, attention: str | None, dropout: float, output_width: int = 0,
        **kwargs,
    ):  # fmt: skip
        super().__init__(autocast=False, **kwargs)  # keeps the given states of cells float32
        self.width, self.mechanism = width, attention
        self.output_width = output_width or width
        """Of W_c, where it differs from that of the layers; only with attention."""
        policy = self.dtype_policy
        self.cells = [CELLS[cell](width, dtype=policy, name=f"cell_{i}") for i in range(num_layers)]
        self.dropouts = [Dropout(dropout, dtype=policy, name=f"dropout_{i}") for i in range(num_layers + 1)]
        self.attention: Any = ATTENTION[attention](width, dtype=policy, name="attention") if attention else None

    def build(self, input_shape):
        """Builds every layer for inputs (B, T, C), the upper ones for D channels; kernels are Glorot uniform."""
        width = self.width
        self.cells[0].build(input_shape)
        for layer in (*self.cells[1:], *self.dropouts[:-1]):
            layer.build((None, width))
        self.dropouts[-1].build((None, self.output_width))
        if self.attention is not None:
            self.attention.build((None, None, width))
            fed = self.output_width if self.mechanism == "luong" else width
            self.fed_kernel = self.add_weight(name="fed_kernel", shape=(fed, self.cells[0].num_gates * width))
            self.combine_kernel = self.add_weight(name="combine_kernel", shape=(2 * width, self.output_width))

    def memory(self, values_BSD, keep_BS) -> Memory | tuple[()]:
        """Prepares the encoder's output (B, S, D) for attention; returns () without attention."""
        return () if self.attention is None else self.attention.memory(values_BSD, keep_BS)

    def start(self, layers: tuple[CellState, ...]) -> DecoderState:
        """Returns the state before the first step, from one state (N, D) per layer."""
        return DecoderState(layers, ops.zeros_like(layers[-1].hidden[:, : self.output_width]))

    def call(
        self, x, layers: tuple[CellState, ...], memory: Memory | tuple[()], keep_BT=None,
        cache: StepCache | None = None, seed=None,
    ):  # fmt: skip
        """Returns the outputs (B, T, D) of all steps, or with a cache (N, D) of one.

        Args:
            x: (B, T, C), the word before each position, or with a cache (N, C).
            layers: initial states (B, D).
            memory: what that method returned.
            keep_BT: unused, as padding comes last.
            cache: in a decoding step; its entry is a `DecoderState`, first that of `start`.
            seed: of dropout.
        """
        if cache is not None:
            state = self.step(x, cache.state(self.path), memory)
            cache.set_state(self.path, state)
            return state.output
        x_TBC = self.dropouts[0](ops.transpose(x, (1, 0, 2)), seed=seed)
        # Dropped outside of the loop: a mask drawn inside would be the same at every step.
        ones_TBD = ops.ones((*ops.shape(x_TBC)[:2], self.width), x_TBC.dtype)
        scales = [layer(ones_TBD, seed=seed) for layer in self.dropouts[1:-1] if layer.acts(seed)]
        advance = self.stepper(memory)

        def step(before: DecoderState, given):
            gates_BG, *scales_BD = given
            return advance(gates_BG, before, scales_BD)

        given = (self.cells[0].input_gates(x_TBC), *scales)
        _, states = scan(step, self.start(layers), given)
        return self.dropouts[-1](ops.transpose(states.output, (1, 0, 2)), seed=seed)

    def empty_entry(self, rows, beams: int, length) -> None:
        """Returns None: the state before the first position depends on the source, see `start`."""

    def step(self, x_NC, state: DecoderState, memory: Memory | tuple[()]) -> DecoderState:
        """Returns the state after one step; its `output` (N, D) is that of `call` at the same position."""
        return self.stepper(memory)(self.cells[0].input_gates(x_NC), state, [])

    def stepper(self, memory: Memory | tuple[()]) -> Callable:
        """Returns `step(gates_NG, state, scales) -> DecoderState`; scales (N, D) are dropout on inputs of upper layers.

        The gates are the bottom cell's gate inputs from the word before. Scales are empty if nothing is dropped.
        """
        steps = [cell.stepper() for cell in self.cells]

        def stack(gates_NG, before: tuple[CellState, ...], scales) -> tuple[CellState, ...]:
            after = [steps[0](gates_NG, before[0])]
            for i in range(1, len(steps)):
                x_ND = after[-1].hidden * scales[i - 1] if scales else after[-1].hidden
                after.append(steps[i](self.cells[i].input_gates(x_ND), before[i]))
            return tuple(after)

        if self.attention is None:

            def plain(gates_NG, before: DecoderState, scales):
                layers = stack(gates_NG, before.layers, scales)
                return DecoderState(layers, layers[-1].hidden)

            return plain
        attend = self.attention.stepper(memory)
        fed_kernel, combine_kernel = (ops.cast(w, self.compute_dtype) for w in (self.fed_kernel, self.combine_kernel))
        looks_first = self.mechanism == "bahdanau"

        def attentive(gates_NG, before: DecoderState, scales):
            fed_ND = attend(before.layers[-1].hidden) if looks_first else before.output
            layers = stack(gates_NG + ops.matmul(fed_ND, fed_kernel), before.layers, scales)
            top_ND = layers[-1].hidden
            context_ND = fed_ND if looks_first else attend(top_ND)
            both_ND = ops.concatenate([context_ND, top_ND], axis=-1)
            return DecoderState(layers, ops.tanh(ops.matmul(both_ND, combine_kernel)))

        return attentive


class CachedRecurrence(CachingLayer):
    """Recurrent layers that start from zero states, without attention, as part of a decoder with a cache."""

    def __init__(self, cell: str, width: int, num_layers: int, dropout: float, **kwargs):
        super().__init__(**kwargs)
        self.stack = RecurrentDecoder(cell, width, num_layers, None, dropout, dtype=self.dtype_policy, name="stack")

    def build(self, input_shape):
        """Builds every layer for (B, T, C)."""
        self.stack.build(input_shape)

    def call(self, x, cache: StepCache | None = None, seed=None):
        """Returns (B, T, D) of (B, T, C), or with a cache (N, D) of (N, C), for a decoding step."""
        if cache is None:
            return self.stack(x, self._zero_states(ops.shape(x)[0]), (), seed=seed)
        state = self.stack.step(x, cache.state(self.path), ())
        cache.set_state(self.path, state)
        return state.output

    def empty_entry(self, rows, beams: int, length) -> DecoderState:
        """Returns the state before the first position, zeros."""
        return self.stack.start(self._zero_states(rows))

    def _zero_states(self, rows) -> tuple[CellState, ...]:
        return tuple(cell.zero_state(rows) for cell in self.stack.cells)
