"""The stacks of GNMT: recurrent layers with residual connections, and one attention read by every decoder layer.

Wu et al. 2016 (arXiv:1609.08144), section 3.

Legend: B batch, S source length, D width, N rows, G gate inputs of a cell.
"""

from collections.abc import Callable

import keras
from keras import ops

from t2t.layers.dropout import Dropout
from t2t.layers.recurrent import RecurrentLayer
from t2t.layers.recurrent_attention import Memory
from t2t.layers.recurrent_cells import CellState
from t2t.layers.recurrent_decoder import DecoderState, RecurrentDecoder

_FIRST_RESIDUAL = 2
"""Index of the first layer that adds its input to its output: the third (figure 1)."""


class GnmtEncoder(keras.layers.Layer):
    """A bottom layer in both directions, D units each (section 3.2), and at least one forward layer above it."""

    def __init__(self, cell: str, width: int, num_layers: int, dropout: float, **kwargs):
        super().__init__(**kwargs)
        policy = self.dtype_policy
        self.bottom = [
            RecurrentLayer(cell, width, backwards, dtype=policy, name=f"layer_0_{way}")
            for backwards, way in ((False, "forward"), (True, "backward"))
        ]
        self.upper = [RecurrentLayer(cell, width, dtype=policy, name=f"layer_{i}") for i in range(1, num_layers)]
        self.dropouts = [Dropout(dropout, dtype=policy, name=f"dropout_{i}") for i in range(num_layers)]

    def build(self, input_shape):
        """Builds every layer for (B, S, D); the second reads both directions."""
        both = (*input_shape[:-1], 2 * input_shape[-1])
        for i, layer in enumerate((*self.bottom, *self.upper)):
            layer.build(both if i == len(self.bottom) else input_shape)
        for dropout in self.dropouts:
            dropout.build()

    def call(self, x_BSD, keep_BS, seed=None) -> tuple:
        """Returns the top layer's output (B, S, D), and the initial CellState (B, D) of each decoder layer.

        Initial states are zeros: the decoder reads the source only by attention. `keep_BS` is bool, True at data.
        """
        dropped_BSD = self.dropouts[0](x_BSD, seed=seed)
        x_BSC = ops.concatenate([layer(dropped_BSD, keep_BS)[0] for layer in self.bottom], axis=-1)
        for i, layer in enumerate(self.upper, start=1):
            hidden_BSD, _ = layer(self.dropouts[i](x_BSC, seed=seed), keep_BS)
            x_BSC = hidden_BSD + x_BSC if i >= _FIRST_RESIDUAL else hidden_BSD
        start: CellState = self.bottom[0].cell.zero_state(ops.shape(x_BSD)[0])
        return x_BSC, (start,) * len(self.dropouts)


class GnmtDecoder(RecurrentDecoder):
    """Recurrent layers that all read one context; its query is the bottom layer's state before the step (equation 4).

    With x_0 the word before, a the context and m_i the hidden state of layer i, from 1:

        m_i = Cell_i([x_(i-1); a]),  x_i = m_i for i < 3, and m_i + x_(i-1) from there on (equation 6)

    The output is x_i of the top layer.
    """

    def __init__(self, cell: str, width: int, num_layers: int, dropout: float, **kwargs):
        super().__init__(cell, width, num_layers, "bahdanau", dropout, **kwargs)

    def build(self, input_shape):
        """Builds every layer for (B, T, D), each with a kernel for the context."""
        for layer in (*self.cells, *self.dropouts, self.attention):
            layer.build((None, None, self.width))
        shape = (self.width, self.cells[0].num_gates * self.width)
        self.context_kernels = [
            self.add_weight(name=f"context_kernel_{i}", shape=shape) for i in range(len(self.cells))
        ]

    def stepper(self, memory: Memory | tuple[()]) -> Callable:
        """Returns `step(gates_NG, state, scales) -> DecoderState`; see the base class."""
        steps = [cell.stepper() for cell in self.cells]
        kernels = [ops.cast(kernel, self.compute_dtype) for kernel in self.context_kernels]
        attend = self.attention.stepper(memory)

        def step(gates_NG, before: DecoderState, scales) -> DecoderState:
            context_ND = attend(before.layers[0].hidden)
            after = [steps[0](gates_NG + ops.matmul(context_ND, kernels[0]), before.layers[0])]
            x_ND = after[0].hidden
            for i in range(1, len(steps)):
                gates_NG = self.cells[i].input_gates(x_ND * scales[i - 1] if scales else x_ND)
                after.append(steps[i](gates_NG + ops.matmul(context_ND, kernels[i]), before.layers[i]))
                x_ND = after[i].hidden + x_ND if i >= _FIRST_RESIDUAL else after[i].hidden
            return DecoderState(tuple(after), x_ND)

        return step
