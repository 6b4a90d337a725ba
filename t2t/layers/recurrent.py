"""Long short-term memory: a cell, the cell along a sequence, and an encoder of several such layers.

Legend: B batch, S length, N rows, C input channels, D units.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import keras
from keras import ops

from t2t.layers.dropout import Dropout
from t2t.layers.loops import scan
from t2t.layers.residual import CompositeLayer


class LstmState(NamedTuple):
    """What a cell remembers of the steps before."""

    hidden: Any
    """(N, D) in the type of activations: h_t."""
    cell: Any
    """(N, D) float32: c_t, a sum over all steps."""


class LstmCell(keras.layers.Layer):
    """The cell of Hochreiter and Schmidhuber (1997) with forget gates (Gers et al. 2000, equations 1 to 5).

        i, f, g, o = x_t W + h_(t-1) U + b
        c_t = sigmoid(f) c_(t-1) + sigmoid(i) tanh(g),  h_t = sigmoid(o) tanh(c_t)

    No peepholes, as in Zaremba et al. (2014, section 3). The bias of f begins at 1 (Jozefowicz et al. 2015, section 5),
    so that a new network remembers.
    """

    def __init__(self, units: int, **kwargs):
        super().__init__(**kwargs)
        self.units = units

    def build(self, input_shape):
        """Creates W (C, 4D), U (D, 4D) and b (4D,) for inputs (..., C)."""
        self.input_kernel = self.add_weight(name="input_kernel", shape=(input_shape[-1], 4 * self.units))
        shape = (self.units, 4 * self.units)
        self.recurrent_kernel = self.add_weight(name="recurrent_kernel", shape=shape, initializer="orthogonal")
        self.bias = self.add_weight(name="bias", shape=shape[1:], initializer=_forget_bias)

    def input_gates(self, x):
        """Returns x W + b, (..., 4D), of x (..., C), for all steps at once where all are known."""
        return ops.matmul(x, ops.cast(self.input_kernel, x.dtype)) + ops.cast(self.bias, x.dtype)

    def stepper(self) -> Callable:
        """Returns `step(gates_N4D, state) -> LstmState`, where gates are those of `input_gates`.

        Weights are read here, once, and not in the loop that calls it.
        """
        kernel = ops.cast(self.recurrent_kernel, self.compute_dtype)

        def step(gates_N4D, state: LstmState) -> LstmState:
            i, f, g, o = ops.split(gates_N4D + ops.matmul(state.hidden, kernel), 4, axis=-1)
            fresh_ND = ops.cast(ops.sigmoid(i) * ops.tanh(g), "float32")
            cell_ND = ops.cast(ops.sigmoid(f), "float32") * state.cell + fresh_ND
            return LstmState(ops.sigmoid(o) * ops.cast(ops.tanh(cell_ND), gates_N4D.dtype), cell_ND)

        return step

    def zero_state(self, rows) -> LstmState:
        """Returns the state of `rows` sequences before their first step."""
        shape = (rows, self.units)
        return LstmState(ops.zeros(shape, self.compute_dtype), ops.zeros(shape, "float32"))


class LstmLayer(CompositeLayer):
    """A cell along sequences, from zero states; `backwards` from the last position that holds data to the first."""

    def __init__(self, units: int, backwards: bool = False, **kwargs):
        super().__init__(**kwargs)
        self.backwards = backwards
        self.cell = LstmCell(units, dtype=self.dtype_policy, name="cell")

    def call(self, x_BSC, keep_BS):
        """Returns the hidden states (B, S, D) and the LstmState (B, D) at the end.

        Where `keep_BS` (B, S) bool is False nothing happens: the state stays what it was.
        """
        advance = self.cell.stepper()

        def step(before: LstmState, given):
            gates_B4D, keep_B1 = given
            after = advance(gates_B4D, before)
            return LstmState(*(ops.where(keep_B1 > 0, new, old) for new, old in zip(after, before, strict=True)))

        gates_SB4D = self.cell.input_gates(ops.transpose(x_BSC, (1, 0, 2)))
        given = (gates_SB4D, ops.cast(ops.transpose(keep_BS)[..., None], gates_SB4D.dtype))
        start = self.cell.zero_state(ops.shape(x_BSC)[0])
        last, states = scan(step, start, given, reverse=self.backwards)
        return ops.transpose(states.hidden, (1, 0, 2)), last


class LstmEncoder(CompositeLayer):
    """Layers of LSTMs, each reading the hidden states of the one below.

    The direction is `forward`; `reversed`, from the last word to the first (Sutskever et al. 2014, section 3.3); or
    `bidirectional`, each layer half of its units in each direction (Schuster and Paliwal 1997). Dropout acts on the
    inputs of every layer, never between steps (Zaremba et al. 2014, equation 3).
    """

    def __init__(self, width: int, num_layers: int, direction: str, dropout: float, **kwargs):
        super().__init__(**kwargs)
        ways = {"forward": (False,), "reversed": (True,), "bidirectional": (False, True)}[direction]
        names = {False: "forward", True: "backward"}
        self.layers_ = [
            [
                LstmLayer(width // len(ways), back, dtype=self.dtype_policy, name=f"layer_{i}_{names[back]}")
                for back in ways
            ]
            for i in range(num_layers)
        ]
        self.dropouts = [Dropout(dropout, dtype=self.dtype_policy, name=f"dropout_{i}") for i in range(num_layers)]

    def call(self, x_BSD, keep_BS, seed=None):
        """Returns the top layer's hidden states (B, S, D), and of every layer the LstmState (B, D) at its end.

        `keep_BS` is bool, True at data; padding changes no state.
        """
        finals = []
        for directions, dropout in zip(self.layers_, self.dropouts, strict=True):
            x_BSD = dropout(x_BSD, seed=seed)
            hidden, last = zip(*(layer(x_BSD, keep_BS) for layer in directions), strict=True)
            x_BSD = ops.concatenate(hidden, axis=-1)
            finals.append(LstmState(*(ops.concatenate(halves, axis=-1) for halves in zip(*last, strict=True))))
        return x_BSD, tuple(finals)


def _forget_bias(shape, dtype=None):
    units = shape[0] // 4
    return ops.concatenate([ops.zeros(units, dtype), ops.ones(units, dtype), ops.zeros(2 * units, dtype)])
