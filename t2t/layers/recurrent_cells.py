"""One step of a recurrent layer: long short-term memory and the gated recurrent unit.

Legend: N rows, C input channels, D units, G gate inputs of a cell.
"""

from collections.abc import Callable
from typing import Any, ClassVar, NamedTuple

import keras
from keras import ops


class CellState(NamedTuple):
    """The state of a cell after a step."""

    hidden: Any
    """h_t: (N, D), or (N, P) with an LSTM's projection, in the type of activations."""
    cell: Any
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
