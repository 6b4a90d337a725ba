"""A grid of LSTM cells over source and target: Kalchbrenner, Danihelka and Graves 2015 (arXiv:1507.01526), section 3.

At each pair of a source position i and a target position j there are three LSTM cells: one runs along the source, one
along the target, one in depth, from grid to grid. Each reads the hidden states of all three (equations 6 and 7):

    H = [source (i-1, j); target (i, j-1); depth (i, j) of the grid below],  (h_n, m_n) = LSTM(H, m_n, W_n)

Training computes all pairs with i + j = d at once, for each d in turn. Decoding scans the source for one j.

Legend: B batch, S source length, T target length, D width, N rows decoded together, L = S + T - 1 diagonals, C any
number of channels.
"""

from typing import Any, NamedTuple

import keras
from keras import ops

from t2t.layers.loops import scan


class Line(NamedTuple):
    """The state that is passed along one dimension of the grid."""

    hidden: Any
    """(..., D) in the type of activations: h."""
    memory: Any
    """(..., D) float32: m."""


class Block(NamedTuple):
    """The outputs of the three cells of a pair of positions."""

    source: Line
    target: Line
    depth: Line


class GridLayer(keras.layers.Layer):
    """A grid scanned along the source, from its first word or, `backwards`, from its last."""

    def __init__(self, width: int, backwards: bool, **kwargs):
        super().__init__(autocast=False, **kwargs)  # keeps memories float32
        self.width, self.backwards = width, backwards

    def build(self, input_shape=None):
        """Creates the kernel (3D, 12D), Glorot uniform, and the bias (12D,): four gates of each of the three cells."""
        self.kernel = self.add_weight(name="kernel", shape=(3 * self.width, 12 * self.width))
        self.bias = self.add_weight(name="bias", shape=(12 * self.width,), initializer=self._initial_bias)

    def _initial_bias(self, shape, dtype=None):
        # As in `LstmCell`: 1 for the forget gates, so that a new network remembers.
        gates = ops.array([[0.0], [1.0], [0.0], [0.0]], dtype)
        return ops.reshape(ops.tile(gates, (3, 1, self.width)), shape)

    def call(self, depth_TSB: Line, keep_BS) -> tuple[Line, Any]:
        """Returns the output in depth, and its last hidden states along the source.

        Args:
            depth_TSB: the input in depth, (T, S, B, D) each.
            keep_BS: bool, True at data; at other positions all lines stay unchanged along the source.

        Returns:
            The line (T, S, B, D), and the hidden state (T, B, D) of each target position.
        """
        given_TSBC = self._given((depth_TSB,), ops.transpose(keep_BS)[None], ops.shape(depth_TSB.hidden))
        if self.backwards:
            given_TSBC = ops.flip(given_TSBC, axis=1)
        length, positions, batch, _ = ops.shape(given_TSBC)
        advance = self._stepper()

        def step(before: Block, given) -> Block:
            (part,) = given
            # In the previous diagonal, the same source position is one target position earlier.
            earlier = Line(*(ops.pad(x[:-1], ((1, 0), (0, 0), (0, 0))) for x in before.target))
            return advance(before, earlier, *self._split(part, 1))

        start = Block(*(Line(*self._zeros((length, batch))) for _ in range(3)))
        last, blocks_LTB = scan(step, start, (ops.swapaxes(_skewed(given_TSBC), 0, 1),))
        depth = [_unskewed(ops.swapaxes(x, 0, 1), positions) for x in blocks_LTB.depth]
        if self.backwards:
            depth = [ops.flip(x, axis=1) for x in depth]
        return Line(*depth), last.depth.hidden

    def step(self, target: Line, depth: Line, keep_NS) -> tuple[Line, Line, Any]:
        """Returns the lines along the target after one target position, the lines in depth, and the last hidden state.

        Args:
            target: (N, S, D) each, from the previous target position.
            depth: the input in depth, (N, S, D) each.
            keep_NS: bool, True at data.
        """
        rows = ops.shape(keep_NS)[0]
        given_NSC = self._given((target, depth), keep_NS, ops.shape(target.hidden))
        advance = self._stepper()

        def step(before: Block, given) -> Block:
            return advance(before, *self._split(given[0], 2))

        start = Block(*(Line(*self._zeros((rows,))) for _ in range(3)))
        given = (ops.swapaxes(given_NSC, 0, 1),)
        last, blocks = scan(step, start, given, reverse=self.backwards)
        target, depth = (Line(*(ops.swapaxes(x, 0, 1) for x in line)) for line in (blocks.target, blocks.depth))
        return target, depth, last.depth.hidden

    def _given(self, lines: tuple[Line, ...], keep, shape) -> Any:
        """Concatenates lines and mask, float32, with the leading axes of `shape`."""
        keep = ops.broadcast_to(ops.cast(keep, "float32")[..., None], (*shape[:-1], 1))
        return ops.concatenate([*(ops.cast(x, "float32") for line in lines for x in line), keep], axis=-1)

    def _split(self, given, count: int) -> list[Any]:
        """Returns the `count` lines and the mask that `_given` concatenated."""
        parts = ops.split(given, [self.width * (i + 1) for i in range(2 * count)], axis=-1)
        lines = [Line(ops.cast(parts[2 * i], self.compute_dtype), parts[2 * i + 1]) for i in range(count)]
        return [*lines, parts[-1]]

    def _stepper(self):
        """Returns `advance(before, target, depth, keep) -> Block`, the lines after a pair, (..., D) each."""
        kernel, bias = (ops.cast(weight, self.compute_dtype) for weight in (self.kernel, self.bias))

        def advance(before: Block, target: Line, depth: Line, keep) -> Block:
            entering = (before.source, target, depth)
            hidden = ops.concatenate([line.hidden for line in entering], axis=-1)
            cells = ops.split(ops.matmul(hidden, kernel) + bias, 3, axis=-1)
            after = [_lstm(gates, line) for gates, line in zip(cells, entering, strict=True)]
            pairs = zip(after, before, strict=True)
            return Block(*(_selected(keep > 0, new, old) for new, old in pairs))

        return advance

    def _zeros(self, shape: tuple) -> tuple[Any, Any]:
        shape = (*shape, self.width)
        return ops.zeros(shape, self.compute_dtype), ops.zeros(shape, "float32")


def _selected(keep, new: Line, old: Line) -> Line:
    return Line(*(ops.where(keep, x, y) for x, y in zip(new, old, strict=True)))


def _lstm(gates, line: Line) -> Line:
    """Returns a line after a cell: h = tanh(o m), where other LSTMs have o tanh(m) (equation 3)."""
    u, f, c, o = ops.split(gates, 4, axis=-1)
    fresh = ops.cast(ops.sigmoid(u) * ops.tanh(c), "float32")
    memory = ops.cast(ops.sigmoid(f), "float32") * line.memory + fresh
    return Line(ops.tanh(ops.sigmoid(o) * ops.cast(memory, gates.dtype)), memory)


def _skewed(x_TSBC):
    """Returns (T, L, B, C): row j holds source position i of target position j at i + j, and zeros elsewhere."""
    length, positions, *shape = ops.shape(x_TSBC)
    padded = ops.pad(x_TSBC, ((0, 0), (0, length), (0, 0), (0, 0)))
    # With one element less per row, each row starts one element later than the one before.
    rows = ops.reshape(padded, (length * (positions + length), *shape))[:-length]
    return ops.reshape(rows, (length, positions + length - 1, *shape))


def _unskewed(x_TLBC, positions):
    """Inverts `_skewed`: returns (T, S, B, C), where S is `positions`."""
    length, diagonals, *shape = ops.shape(x_TLBC)
    rows = ops.reshape(x_TLBC, (length * diagonals, *shape))
    padded = ops.pad(rows, ((0, length), (0, 0), (0, 0)))
    return ops.reshape(padded, (length, diagonals + 1, *shape))[:, :positions]
