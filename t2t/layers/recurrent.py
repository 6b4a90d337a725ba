"""A recurrent cell along a sequence, and an encoder of several such layers.

Legend: B batch, S length, C input channels, D units, G gate inputs of a cell.
"""

from keras import ops

from t2t.layers.dropout import Dropout
from t2t.layers.loops import scan
from t2t.layers.recurrent_cells import CellState, build_cell
from t2t.layers.residual import CompositeLayer, build_all


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
