"""Translation by Grid LSTM, the Reencoder of Kalchbrenner, Danihelka and Graves (2015, arXiv:1507.01526).

For every target word the source is scanned again, by cells that read the state left by the previous target words.

Legend: B batch, S source length, T target length, D width, N rows decoded together, C = 2D.
"""

from typing import Any, NamedTuple

import keras
from keras import ops

from t2t.hparams.grid_lstm import GridLstmHParams
from t2t.layers.beams import repeat_sentences
from t2t.layers.dropout import Dropout
from t2t.layers.grid_lstm import GridLayer, Line
from t2t.layers.residual import build_all
from t2t.models.base import READ_AS_VECTORS, DecodeContext, SequenceModel
from t2t.registry import register_model
from t2t.specs.constants import INPUTS, TARGETS
from t2t.specs.features import ProblemSpec


class Source(NamedTuple):
    """The encoded source sentences."""

    words: Any
    """(B, S, 2D): the contribution of each source word to the input of the first grid."""
    keep: Any
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

    def build(self, input_shape=None):
        """Creates every weight."""
        self.build_modality_weights()
        maps, drops = (self.source_map, self.target_map), (self.source_dropout, self.target_dropout)
        build_all((*maps, *drops, *self.grids, *self.dropouts), (None, None, self.hparams.hidden_size))

    def encode(self, features: dict[str, Any], seed=None) -> Source:
        """Returns the source's words for the first grid, and their mask."""
        inputs = features[INPUTS]
        x_BSD = self.source_dropout(self.source_embedding(inputs, seed=seed), seed=seed)
        return Source(self.source_map(x_BSD), self.source_embedding.keep(inputs))

    def body(self, features: dict[str, Any], seed=None):
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

    def init_cache(self, encoded: Source, rows: Any, length: Any, beams: int = 1) -> tuple[Line, ...]:
        """Returns the lines along the target before the first position: (N, S, D) zeros for each grid."""
        shape = (rows, ops.shape(encoded.keep)[1], self.hparams.hidden_size)
        line = Line(ops.zeros(shape, self.compute_dtype), ops.zeros(shape, "float32"))
        return (line,) * len(self.grids)

    def step(self, ids_N, position, cache: tuple[Line, ...], prepared: DecodeContext):
        """Returns (N, D) and the lines along the target after this position; see the base class."""
        source = repeat_sentences(prepared.encoded, ops.shape(ids_N)[0])
        depth, after = _line(source.words + self.target_map(self.target_embedding.before(ids_N))[:, None]), []
        for grid, target in zip(self.grids, cache, strict=True):
            target, depth, last_ND = grid.step(target, depth, source.keep)
            after.append(target)
        return last_ND, tuple(after)


def _line(pairs) -> Line:
    """Splits pairs of words (..., 2D) into the first grid's input: hidden states and memories, (..., D) each."""
    hidden, memory = ops.split(pairs, 2, axis=-1)
    return Line(hidden, ops.cast(memory, "float32"))
