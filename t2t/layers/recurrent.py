"""Recurrent cells, long short-term memory and the gated recurrent unit; along a sequence; and encoders of them.

Legend: B batch, S length, N rows, C input channels, D units, G gate inputs of a cell.
"""

from collections.abc import Callable
from typing import ClassVar, NamedTuple

import keras
from keras import ops

from t2t.layers.dropout import Dropout
from t2t.layers.loops import scan
from t2t.layers.residual import CompositeLayer, build_all
from t2t.layers.tensors import Tensor


class CellState(NamedTuple):
    """The state of a cell after a step."""

    hidden: Tensor
    """h_t: (N, D), or (N, P) with an LSTM's projection, in the type of activations."""
    cell: Tensor
    """(N, D) float32, since it sums over all steps: c_t of an LSTM, h_t of a gated unit."""


class RecurrentCell(keras.layers.Layer):
    """Base class of cells, with weights W (C, G), U (D, G) and b (G,), and a zero initial state."""

    num_gates: ClassVar[int]
    """G / D."""

    def __init__(self, units: int, **kwargs):
        super().__init__(**kwargs)
        self.units = self.hidden_units = units

    def build(self, input_shape):
        """Creates W, Glorot uniform, U, orthogonal, and b for inputs (..., C)."""
        shape = (self.hidden_units, self.num_gates * self.units)
        self.input_kernel = self.add_weight(name="input_kernel", shape=(input_shape[-1], shape[1]))
        self.recurrent_kernel = self.add_weight(name="recurrent_kernel", shape=shape, initializer="orthogonal")
        self.bias = self.add_weight(name="bias", shape=shape[1:], initializer=self.initial_bias)

    def initial_bias(self, shape, dtype=None):
        """Returns the bias of a new cell, (G,)."""
        return ops.zeros(shape, dtype)

    def input_gates(self, x):
        """Returns the gate inputs x W + b, (..., G), for x (..., C): of all steps at once where all are known."""
        return ops.matmul(x, ops.cast(self.input_kernel, x.dtype)) + ops.cast(self.bias, x.dtype)

    def stepper(self) -> Callable:
        """Returns `step(gates_NG, state) -> CellState`, where gates are those of `input_gates`.

        It reads the weights once, outside of the loop that calls the step.
        """
        raise NotImplementedError

    def zero_state(self, rows) -> CellState:
        """Returns the state of `rows` sequences before their first step."""
        hidden = ops.zeros((rows, self.hidden_units), self.compute_dtype)
        return CellState(hidden, ops.zeros((rows, self.units), "float32"))


class LstmCell(RecurrentCell):
    """The cell of Hochreiter and Schmidhuber (1997) with forget gates (Gers et al. 2000, equations 1 to 5).

        i, f, g, o = x_t W + h_(t-1) U + b
        c_t = sigmoid(f) c_(t-1) + sigmoid(i) tanh(g),  h_t = sigmoid(o) tanh(c_t)

    No peepholes, as in Zaremba et al. (2014, section 3). The bias of f is initially 1 (Jozefowicz et al. 2015, section
    5), so that a new network remembers.

    With `projection`, P, h_t = (sigmoid(o) tanh(c_t)) W_p is P wide (Sak et al. 2014, arXiv:1402.1128, equation
    6), and U is (P, 4D).
    """

    num_gates = 4

    def __init__(self, units: int, projection: int = 0, **kwargs):
        super().__init__(units, **kwargs)
        self.hidden_units, self.is_projected = projection or units, projection > 0

    def build(self, input_shape):
        """Creates the weights of every cell, and W_p (D, P), Glorot uniform."""
        super().build(input_shape)
        self.projection_kernel = None
        if self.is_projected:
            shape = (self.units, self.hidden_units)
            self.projection_kernel = self.add_weight(name="projection_kernel", shape=shape)

    def initial_bias(self, shape, dtype=None):
        """Returns ones for f, zeros for the others, (4D,)."""
        ones, zeros = ops.ones(self.units, dtype), ops.zeros(self.units, dtype)
        return ops.concatenate([zeros, ones, zeros, zeros])

    def stepper(self) -> Callable:
        """Returns `step(gates_NG, state) -> CellState`; see the base class."""
        kernel = ops.cast(self.recurrent_kernel, self.compute_dtype)
        projection = ops.cast(self.projection_kernel, self.compute_dtype) if self.is_projected else None

        def step(gates_NG, state: CellState) -> CellState:
            i, f, g, o = ops.split(gates_NG + ops.matmul(state.hidden, kernel), 4, axis=-1)
            fresh_ND = ops.cast(ops.sigmoid(i) * ops.tanh(g), "float32")
            cell_ND = ops.cast(ops.sigmoid(f), "float32") * state.cell + fresh_ND
            hidden_ND = ops.sigmoid(o) * ops.cast(ops.tanh(cell_ND), gates_NG.dtype)
            return CellState(hidden_ND if projection is None else ops.matmul(hidden_ND, projection), cell_ND)

        return step


class GruCell(RecurrentCell):
    """The gated recurrent unit of Cho et al. (2014, arXiv:1406.1078, equations 5 to 8), with biases.

    z, r = sigmoid(x_t W_zr + h_(t-1) U_zr + b_zr)
    h_t = z h_(t-1) + (1 - z) tanh(x_t W_h + (r h_(t-1)) U_h + b_h)
    """

    num_gates = 3

    def stepper(self) -> Callable:
        """Returns `step(gates_NG, state) -> CellState`; see the base class."""
        kernel = ops.cast(self.recurrent_kernel, self.compute_dtype)
        gate_kernel, fresh_kernel = ops.split(kernel, [2 * self.units], axis=1)

        def step(gates_NG, state: CellState) -> CellState:
            given_N2D, fresh_ND = ops.split(gates_NG, [2 * self.units], axis=-1)
            z_ND, r_ND = ops.split(ops.sigmoid(given_N2D + ops.matmul(state.hidden, gate_kernel)), 2, axis=-1)
            fresh_ND = ops.tanh(fresh_ND + ops.matmul(r_ND * state.hidden, fresh_kernel))
            old_ND = ops.cast(z_ND, "float32")
            cell_ND = old_ND * state.cell + (1.0 - old_ND) * ops.cast(fresh_ND, "float32")
            return CellState(ops.cast(cell_ND, gates_NG.dtype), cell_ND)

        return step


CELLS: dict[str, type[RecurrentCell]] = {"lstm": LstmCell, "gru": GruCell}


def build_cell(cell: str, units: int, projection: int = 0, **kwargs) -> RecurrentCell:
    """Returns a cell by name; only an LSTM can have a projection."""
    return CELLS[cell](units, **kwargs, **({"projection": projection} if projection else {}))


class RecurrentLayer(CompositeLayer):
    """A cell run along sequences from a zero state; `backwards`, from the last position with data to the first.

    The hidden states of an LSTM can be projected, see `LstmCell`.
    """

    def __init__(self, cell: str, units: int, backwards: bool = False, projection: int = 0, **kwargs):
        super().__init__(**kwargs)
        self.backwards = backwards
        self.cell = build_cell(cell, units, projection, dtype=self.dtype_policy, name="cell")

    def call(self, x_BSC, keep_BS):
        """Returns the hidden states (B, S, D) and the last CellState (B, D).

        Where `keep_BS` (B, S) bool is False, the state stays unchanged.
        """
        hidden_SBD, last = self.run(self.cell.input_gates(ops.transpose(x_BSC, (1, 0, 2))), keep_BS)
        return ops.transpose(hidden_SBD, (1, 0, 2)), last

    def run(self, gates_SBG, keep_BS):
        """Returns the hidden states (S, B, D) and the last CellState (B, D) for the cell's gate inputs."""
        advance = self.cell.stepper()

        def step(before: CellState, given):
            gates_BG, keep_B1 = given
            after = advance(gates_BG, before)
            return CellState(*(ops.where(keep_B1 > 0, new, old) for new, old in zip(after, before, strict=True)))

        given = (gates_SBG, ops.cast(ops.transpose(keep_BS)[..., None], gates_SBG.dtype))
        start = self.cell.zero_state(ops.shape(gates_SBG)[1])
        last, states = scan(step, start, given, reverse=self.backwards)
        return states.hidden, last


class RecurrentEncoder(CompositeLayer):
    """Layers of recurrent cells, each reading the hidden states of the one below.

    The direction is `forward`; `reversed`, from the last word to the first (Sutskever et al. 2014, section 3.3); or
    `bidirectional`, with half of each layer's units in each direction (Schuster and Paliwal 1997). Dropout acts on the
    inputs of every layer, never between steps (Zaremba et al. 2014, equation 3).
    """

    def __init__(self, cell: str, width: int, num_layers: int, direction: str, dropout: float, **kwargs):
        super().__init__(**kwargs)
        ways = {"forward": (False,), "reversed": (True,), "bidirectional": (False, True)}[direction]
        names = {False: "forward", True: "backward"}
        self.layers_ = [
            [
                RecurrentLayer(cell, width // len(ways), back, dtype=self.dtype_policy, name=f"layer_{i}_{names[back]}")
                for back in ways
            ]
            for i in range(num_layers)
        ]
        self.dropouts = [Dropout(dropout, dtype=self.dtype_policy, name=f"dropout_{i}") for i in range(num_layers)]
        self.width = width

    def build(self, input_shape):
        """Builds the bottom layer for inputs (B, S, C), the upper ones for D channels."""
        for number, directions in enumerate(self.layers_):
            build_all(directions, input_shape if number == 0 else (None, None, self.width))
        build_all(self.dropouts, input_shape)

    def call(self, x_BSD, keep_BS, seed=None):
        """Returns the top layer's hidden states (B, S, D), and the last CellState (B, D) of every layer.

        `keep_BS` is bool, True at data; padding changes no state.
        """
        finals = []
        for directions, dropout in zip(self.layers_, self.dropouts, strict=True):
            x_BSD = dropout(x_BSD, seed=seed)
            hidden, last = zip(*(layer(x_BSD, keep_BS) for layer in directions), strict=True)
            x_BSD = ops.concatenate(hidden, axis=-1)
            finals.append(CellState(*(ops.concatenate(halves, axis=-1) for halves in zip(*last, strict=True))))
        return x_BSD, tuple(finals)
