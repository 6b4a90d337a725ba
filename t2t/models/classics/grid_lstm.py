"""Translation by Grid LSTM, the Reencoder of Kalchbrenner, Danihelka and Graves (2015, arXiv:1507.01526).

For every target word the source is scanned again, by cells that read the state left by the previous target words. At
each pair of a source position i and a target position j there are three LSTM cells: one runs along the source, one
along the target, one in depth, from grid to grid. Each reads the hidden states of all three (section 3, equations 6
and 7):

    H = [source (i-1, j); target (i, j-1); depth (i, j) of the grid below],  (h_n, m_n) = LSTM(H, m_n, W_n)

Training computes all pairs with i + j = d at once, for each d in turn. Decoding scans the source for one j.

Source of the values, unless a line says otherwise: the section on translation.

Legend: B batch, S source length, T target length, D width, N rows decoded together, L = S + T - 1 diagonals, C any
number of channels.
"""

from dataclasses import dataclass

from t2t.hparams.base import HParams, for_copying, for_multi30k
from t2t.hparams.field import training_fraction
from t2t.hparams.lstm import for_recurrent
from t2t.registry import register_hparams


@dataclass(kw_only=True)
class GridLstmHParams(HParams):
    """num_hidden_layers grids over source and target, which alternately read the source forwards and backwards."""

    dropout: float = training_fraction(0.5, "Dropout rate on embeddings and on the output of each grid, a fraction.")


@register_hparams
def grid_lstm() -> GridLstmHParams:
    """The paper's size: two grids of 450 units; dropout 0.5."""
    # Trained as the other recurrent models, in small steps. The two languages share no table.
    return for_recurrent(GridLstmHParams(hidden_size=450, num_hidden_layers=2)).replace(
        batch_size=256,
        shared_embedding=False,
        shared_embedding_and_softmax_weights=False,
        label_smoothing=0.0,
        learning_rate=0.0005,
    )


@register_hparams
def grid_lstm_multi30k_tiny() -> GridLstmHParams:
    """For Multi30k, as large as transformer_multi30k_tiny: two grids of 128 units, dropout 0.3."""
    # Small steps, since each pair of positions takes as much memory as one position of other models.
    return for_multi30k(for_recurrent(GridLstmHParams(hidden_size=128, num_hidden_layers=2))).replace(
        batch_size=490, dropout=0.3, learning_rate=0.003, learning_rate_warmup_steps=500
    )


@register_hparams
def grid_lstm_tiny() -> GridLstmHParams:
    """Learns to copy and reverse in minutes on two processor cores: two grids of 64 units."""
    return for_copying(for_recurrent(GridLstmHParams(hidden_size=64, num_hidden_layers=2)))


# === The network ===
from typing import NamedTuple

import keras
from keras import ops

from t2t.layers.beams import repeat_sentences
from t2t.layers.dropout import Dropout
from t2t.layers.loops import scan
from t2t.layers.tensors import Features, Size, Tensor
from t2t.models.base import READ_AS_VECTORS, DecodeContext, SequenceModel
from t2t.registry import register_model
from t2t.specs import INPUTS, TARGETS
from t2t.specs.features import ProblemSpec


class LstmLine(NamedTuple):
    """The state that is passed along one dimension of the grid."""

    hidden: Tensor
    """(..., D) in the type of activations: h."""
    memory: Tensor
    """(..., D) float32: m."""


class Block(NamedTuple):
    """The outputs of the three cells of a pair of positions."""

    source: LstmLine
    target: LstmLine
    depth: LstmLine


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

    def call(self, depth_TSB: LstmLine, keep_BS) -> tuple[LstmLine, Tensor]:
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
            earlier = LstmLine(*(ops.pad(x[:-1], ((1, 0), (0, 0), (0, 0))) for x in before.target))
            return advance(before, earlier, *self._split(part, 1))

        start = Block(*(LstmLine(*self._zeros((length, batch))) for _ in range(3)))
        last, blocks_LTB = scan(step, start, (ops.swapaxes(_skewed(given_TSBC), 0, 1),))
        depth = [_unskewed(ops.swapaxes(x, 0, 1), positions) for x in blocks_LTB.depth]
        if self.backwards:
            depth = [ops.flip(x, axis=1) for x in depth]
        return LstmLine(*depth), last.depth.hidden

    def step(self, target: LstmLine, depth: LstmLine, keep_NS) -> tuple[LstmLine, LstmLine, Tensor]:
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

        start = Block(*(LstmLine(*self._zeros((rows,))) for _ in range(3)))
        given = (ops.swapaxes(given_NSC, 0, 1),)
        last, blocks = scan(step, start, given, reverse=self.backwards)
        target, depth = (LstmLine(*(ops.swapaxes(x, 0, 1) for x in line)) for line in (blocks.target, blocks.depth))
        return target, depth, last.depth.hidden

    def _given(self, lines: tuple[LstmLine, ...], keep, shape) -> Tensor:
        """Concatenates lines and mask, float32, with the leading axes of `shape`."""
        keep = ops.broadcast_to(ops.cast(keep, "float32")[..., None], (*shape[:-1], 1))
        return ops.concatenate([*(ops.cast(x, "float32") for line in lines for x in line), keep], axis=-1)

    def _split(self, given, count: int) -> list[Tensor]:
        """Returns the `count` lines and the mask that `_given` concatenated."""
        parts = ops.split(given, [self.width * (i + 1) for i in range(2 * count)], axis=-1)
        lines = [LstmLine(ops.cast(parts[2 * i], self.compute_dtype), parts[2 * i + 1]) for i in range(count)]
        return [*lines, parts[-1]]

    def _stepper(self):
        """Returns `advance(before, target, depth, keep) -> Block`, the lines after a pair, (..., D) each."""
        kernel, bias = (ops.cast(weight, self.compute_dtype) for weight in (self.kernel, self.bias))

        def advance(before: Block, target: LstmLine, depth: LstmLine, keep) -> Block:
            entering = (before.source, target, depth)
            hidden = ops.concatenate([line.hidden for line in entering], axis=-1)
            cells = ops.split(ops.matmul(hidden, kernel) + bias, 3, axis=-1)
            after = [_lstm(gates, line) for gates, line in zip(cells, entering, strict=True)]
            pairs = zip(after, before, strict=True)
            return Block(*(_selected(keep > 0, new, old) for new, old in pairs))

        return advance

    def _zeros(self, shape: tuple) -> tuple[Tensor, Tensor]:
        shape = (*shape, self.width)
        return ops.zeros(shape, self.compute_dtype), ops.zeros(shape, "float32")


def _selected(keep, new: LstmLine, old: LstmLine) -> LstmLine:
    return LstmLine(*(ops.where(keep, x, y) for x, y in zip(new, old, strict=True)))


def _lstm(gates, line: LstmLine) -> LstmLine:
    """Returns a line after a cell: h = tanh(o m), where other LSTMs have o tanh(m) (equation 3)."""
    u, f, c, o = ops.split(gates, 4, axis=-1)
    fresh = ops.cast(ops.sigmoid(u) * ops.tanh(c), "float32")
    memory = ops.cast(ops.sigmoid(f), "float32") * line.memory + fresh
    return LstmLine(ops.tanh(ops.sigmoid(o) * ops.cast(memory, gates.dtype)), memory)


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


class GridSource(NamedTuple):
    """The encoded source sentences."""

    words: Tensor
    """(B, S, 2D): the contribution of each source word to the input of the first grid."""
    keep: Tensor
    """(B, S) bool, True at data."""


@register_model
class GridLstm(SequenceModel):
    """Grid Long Short-Term Memory: LSTM cells along source, target and depth, at every pair of positions."""

    hparams_class = GridLstmHParams
    compiles_with_xla = False
    accepts_inputs = READ_AS_VECTORS

    def __init__(self, hparams: GridLstmHParams, spec: ProblemSpec, dtype: str = "float32", **kwargs):
        super().__init__(hparams, spec, dtype, **kwargs)
        policy, width, rate = self.dtype_policy, hparams.hidden_size, hparams.dropout
        self.source_map = keras.layers.Dense(2 * width, dtype=policy, name="source_map")
        self.target_map = keras.layers.Dense(2 * width, use_bias=False, dtype=policy, name="target_map")
        # Grids alternate in direction, the first one reads forwards.
        self.grids = [
            GridLayer(width, i % 2 == 1, dtype=policy, name=f"grid_{i}") for i in range(hparams.num_hidden_layers)
        ]
        self.source_dropout = Dropout(rate, dtype=policy, name="source_dropout")
        self.target_dropout = Dropout(rate, dtype=policy, name="target_dropout")
        self.dropouts = [Dropout(rate, dtype=policy, name=f"dropout_{i}") for i in range(hparams.num_hidden_layers)]
        self.build()

    def encode(self, features: Features, seed=None) -> GridSource:
        """Returns the source's words for the first grid, and their mask."""
        inputs = features[INPUTS]
        x_BSD = self.source_dropout(self.source_embedding(inputs, seed=seed), seed=seed)
        return GridSource(self.source_map(x_BSD), self.source_embedding.keep(inputs))

    def body(self, features: Features, seed=None):
        """Returns the last grid's output at the end of the source, (B, T, D); see the base class."""
        source = self.encode(features, seed=seed)
        shifted_BT = ops.pad(features[TARGETS][:, :-1], ((0, 0), (1, 0)))
        x_BTD = self.target_dropout(self.target_embedding.before(shifted_BT, seed=seed), seed=seed)
        pairs_TSB2D = ops.transpose(self.target_map(x_BTD), (1, 0, 2))[:, None] + ops.transpose(source.words, (1, 0, 2))
        depth = _line(pairs_TSB2D)
        for grid, dropout in zip(self.grids[:-1], self.dropouts[:-1], strict=True):
            depth, _ = grid(depth, source.keep)
            depth = depth._replace(hidden=dropout(depth.hidden, seed=seed))
        _, last_TBD = self.grids[-1](depth, source.keep)
        return self.dropouts[-1](ops.transpose(last_TBD, (1, 0, 2)), seed=seed)

    def init_cache(self, encoded: GridSource, rows: Size, length: Size | None, beams: int = 1) -> tuple[LstmLine, ...]:
        """Returns the lines along the target before the first position: (N, S, D) zeros for each grid."""
        shape = (rows, ops.shape(encoded.keep)[1], self.hparams.hidden_size)
        line = LstmLine(ops.zeros(shape, self.compute_dtype), ops.zeros(shape, "float32"))
        return (line,) * len(self.grids)

    def step(self, ids_N, position, cache: tuple[LstmLine, ...], prepared: DecodeContext):
        """Returns (N, D) and the lines along the target after this position; see the base class."""
        source = repeat_sentences(prepared.encoded, ops.shape(ids_N)[0])
        depth, after = _line(source.words + self.target_map(self.target_embedding.before(ids_N))[:, None]), []
        for grid, target in zip(self.grids, cache, strict=True):
            target, depth, last_ND = grid.step(target, depth, source.keep)
            after.append(target)
        return last_ND, tuple(after)


def _line(pairs) -> LstmLine:
    """Splits pairs of words (..., 2D) into the first grid's input: hidden states and memories, (..., D) each."""
    hidden, memory = ops.split(pairs, 2, axis=-1)
    return LstmLine(hidden, ops.cast(memory, "float32"))
