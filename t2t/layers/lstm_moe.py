"""The stacks of the LSTM translator with mixtures of experts: residual LSTM layers, and experts between two of them.

Shazeer et al. 2017 (arXiv:1701.06538), appendix E. With x_0 the words, every layer and every mixture adds to its input:

    x_i = x_(i-1) + Dropout(LSTM_i(x_(i-1))),  x' = x + Dropout(sigmoid(MoE(x)))

A mixture is called once on all positions of a sequence. The decoder can do so because only its bottom layer attends to
the source: the layers above it read whole sequences.

Legend: B batch, S source length, T target length, D width, U units of a cell, N rows, G gate inputs of a cell.
"""

from collections.abc import Callable
from typing import NamedTuple

import keras
from keras import ops

from t2t.layers.dropout import Dropout
from t2t.layers.experts import Experts
from t2t.layers.loops import scan
from t2t.layers.recurrent import RecurrentLayer
from t2t.layers.recurrent_attention import FactoredAttention, Memory
from t2t.layers.recurrent_cells import CellState, build_cell
from t2t.layers.recurrent_decoder import DecoderState
from t2t.layers.residual import CompositeLayer


class Mixture(NamedTuple):
    """Settings of a mixture of experts; see `Experts`."""

    filter_size: int
    experts: int
    chosen: int
    groups: int
    balance: float


class ResidualExperts(CompositeLayer):
    """x + Dropout(sigmoid(MoE(x)))."""

    def __init__(self, width: int, mixture: Mixture, dropout: float, **kwargs):
        super().__init__(**kwargs)
        filter_size, experts, chosen, groups, balance = mixture
        sizes = (width, filter_size, experts, chosen, balance)
        self.experts = Experts(*sizes, "relu", 0.0, groups=groups, dtype=self.dtype_policy, name="experts")
        self.dropout = Dropout(dropout, dtype=self.dtype_policy, name="dropout")

    def call(self, x, seed=None, keep_BT=None):
        """Returns (..., D), as `x`; positions where `keep_BT` bool is False do not count in the cost."""
        return x + self.dropout(ops.sigmoid(self.experts(x, seed=seed, keep_BT=keep_BT)), seed=seed)


class ExpertEncoder(CompositeLayer):
    """Forward layers, with experts before the last of them.

    Args:
        cell: name of the cell.
        width: D.
        units: U of cells whose hidden state is projected to D; 0 for D units and no projection.
        num_layers: two or more.
        mixture: the experts.
        dropout: rate on words and on the output of every layer.
        **kwargs: of a Keras layer.
    """

    def __init__(self, cell: str, width: int, units: int, num_layers: int, mixture: Mixture, dropout: float, **kwargs):
        super().__init__(**kwargs)
        policy, sizes = self.dtype_policy, (units or width, width if units else 0)
        self.layers_ = [
            RecurrentLayer(cell, sizes[0], projection=sizes[1], dtype=policy, name=f"layer_{i}")
            for i in range(num_layers)
        ]
        self.experts = ResidualExperts(width, mixture, dropout, dtype=policy, name="experts")
        self.dropouts = [Dropout(dropout, dtype=policy, name=f"dropout_{i}") for i in range(num_layers + 1)]

    def call(self, x_BSD, keep_BS, seed=None) -> tuple[object, tuple[CellState, ...]]:
        """Returns the output (B, S, D), and an initial CellState for each decoder layer, of which there is one fewer.

        Initial states are zeros: the decoder reads the source only by attention. `keep_BS` is bool, True at data.
        """
        x_BSD = self.dropouts[0](x_BSD, seed=seed)
        for i, layer in enumerate(self.layers_, start=1):
            if i == len(self.layers_):
                x_BSD = self.experts(x_BSD, seed=seed, keep_BT=keep_BS)
            x_BSD = x_BSD + self.dropouts[i](layer(x_BSD, keep_BS)[0], seed=seed)
        start = self.layers_[0].cell.zero_state(ops.shape(x_BSD)[0])
        return x_BSD, (start,) * (len(self.layers_) - 1)


class ExpertDecoder(keras.layers.Layer):
    """A bottom layer that attends to the source, experts, and layers above them.

    The bottom layer attends with its hidden state before the step, and reads the context together with the word. See
    `ExpertEncoder` for the arguments; here `num_layers` may be 1.
    """

    def __init__(self, cell: str, width: int, units: int, num_layers: int, mixture: Mixture, dropout: float, **kwargs):
        super().__init__(autocast=False, **kwargs)  # keeps the given states of cells float32
        self.width, policy, sizes = width, self.dtype_policy, (units or width, width if units else 0)
        self.bottom = build_cell(cell, *sizes, dtype=policy, name="bottom")
        self.attention = FactoredAttention(width, dtype=policy, name="attention")
        self.experts = ResidualExperts(width, mixture, dropout, dtype=policy, name="experts")
        self.upper = [
            RecurrentLayer(cell, sizes[0], projection=sizes[1], dtype=policy, name=f"layer_{i}")
            for i in range(1, num_layers)
        ]
        self.dropouts = [Dropout(dropout, dtype=policy, name=f"dropout_{i}") for i in range(num_layers + 1)]

    def build(self, input_shape):
        """Builds every layer for (B, T, D)."""
        for layer in (self.bottom, self.attention, self.experts, *self.upper, *self.dropouts):
            layer.build((None, None, self.width))
        shape = (self.width, self.bottom.num_gates * self.bottom.units)
        self.context_kernel = self.add_weight(name="context_kernel", shape=shape)

    def memory(self, values_BSD, keep_BS) -> Memory:
        """Prepares the encoder's output (B, S, D) for attention."""
        return self.attention.memory(values_BSD, keep_BS)

    def start(self, layers: tuple[CellState, ...]) -> DecoderState:
        """Returns the state before the first step, from one state (N, U) per layer."""
        return DecoderState(layers, ops.zeros_like(layers[-1].hidden))

    def call(self, x_BTD, layers: tuple[CellState, ...], memory: Memory, keep_BT, seed=None):
        """Returns the outputs (B, T, D) of all steps, from the word before each position and initial states."""
        x_BTD = self.dropouts[0](x_BTD, seed=seed)
        advance = self._bottom_stepper(memory)
        gates_TBG = self.bottom.input_gates(ops.transpose(x_BTD, (1, 0, 2)))
        _, states = scan(lambda before, given: advance(given[0], before), layers[0], (gates_TBG,))
        x_BTD = x_BTD + self.dropouts[1](ops.transpose(states.hidden, (1, 0, 2)), seed=seed)
        x_BTD = self.experts(x_BTD, seed=seed, keep_BT=keep_BT)
        for layer, dropout in zip(self.upper, self.dropouts[2:], strict=True):
            x_BTD = x_BTD + dropout(layer(x_BTD, keep_BT)[0], seed=seed)
        return x_BTD

    def step(self, x_ND, state: DecoderState, memory: Memory) -> DecoderState:
        """Returns the state after one step; its `output` (N, D) is that of `call` at the same position."""
        after = [self._bottom_stepper(memory)(self.bottom.input_gates(x_ND), state.layers[0])]
        x_ND = self.experts(x_ND + after[0].hidden)
        for layer, before in zip(self.upper, state.layers[1:], strict=True):
            after.append(layer.cell.stepper()(layer.cell.input_gates(x_ND), before))
            x_ND = x_ND + after[-1].hidden
        return DecoderState(tuple(after), x_ND)

    def _bottom_stepper(self, memory: Memory) -> Callable:
        """Returns `step(gates_NG, state) -> CellState` of the bottom layer; gates are the gate inputs from the word."""
        advance, attend = self.bottom.stepper(), self.attention.stepper(memory)
        kernel = ops.cast(self.context_kernel, self.compute_dtype)

        def step(gates_NG, before: CellState) -> CellState:
            return advance(gates_NG + ops.matmul(attend(before.hidden), kernel), before)

        return step
