"""The Extended Neural GPU: active memory with a tape of what has been written (Kaiser and Bengio 2016).

*Can Active Memory Replace Attention?* (arXiv:1610.08613).

Legend: B batch, P positions of the memory, R rows of it, T target length, D width, N rows decoded together.
"""

from typing import Any, NamedTuple

from keras import ops

from t2t.hparams.neural_gpu import ExtendedNeuralGpuHParams
from t2t.layers.beams import repeat_sentences
from t2t.layers.conv_gru import ConvGru
from t2t.layers.output_tape import TapeDecoder, TapeState
from t2t.models.base import DecodeContext, SequenceModel
from t2t.models.neural_gpu import build_units, read_source
from t2t.registry import register_model
from t2t.specs.constants import TARGETS
from t2t.specs.features import FeatureKind, ProblemSpec


class Encoded(NamedTuple):
    """The encoded source sentences."""

    memory: Any
    """(B, P, R, D), zeros beyond the sentence's own positions."""
    keep: Any
    """(B, P) bool, True at the sentence's own positions."""


@register_model
class ExtendedNeuralGpu(SequenceModel):
    """Extended Neural GPU: active memory that reads the source, then writes words, with a tape of those so far.

    The memory has `unfolding_factor` times as many positions as the source, plus `unfolding_offset`. The encoder takes
    `steps_per_position` steps per position of the memory; the decoder takes one step per word.
    """

    hparams_class = ExtendedNeuralGpuHParams
    compiles_with_xla = False
    accepts_inputs = (FeatureKind.TOKENS,)

    def __init__(self, hparams: ExtendedNeuralGpuHParams, spec: ProblemSpec, dtype: str = "float32", **kwargs):
        super().__init__(hparams, spec, dtype, **kwargs)
        self.units = build_units(ConvGru, hparams, self.dtype_policy)
        self.decoder = TapeDecoder(
            hparams.hidden_size, hparams.state_rows, hparams.kernel_size, hparams.num_hidden_layers, hparams.dropout,
            dtype=self.dtype_policy, name="decoder",
        )  # fmt: skip
        self.build()

    def build(self, input_shape=None):
        """Creates every weight."""
        self.build_modality_weights()
        for part in (*self.units, self.decoder):
            part.build()

    def body(self, features: dict[str, Any], seed=None):
        """Returns the decoder's output, (B, T, D); see the base class."""
        memory_BPRD, keep_BP = self.encode(features, seed=seed)
        shifted_BT = ops.pad(features[TARGETS][:, :-1], ((0, 0), (1, 0)))
        return self.decoder(self.target_embedding.before(shifted_BT, seed=seed), memory_BPRD, keep_BP, seed=seed)

    def encode(self, features: dict[str, Any], seed=None) -> Encoded:
        """Returns the memory after all steps of the encoder."""
        return Encoded(*read_source(self, features, seed))

    def init_cache(self, encoded: Encoded, rows: Any, length: Any, beams: int = 1) -> TapeState:
        """Returns each hypothesis's memory and an empty tape, both independent of `length`; see the base class."""
        memory_NPRD = repeat_sentences(encoded.memory, rows)
        return TapeState(memory_NPRD, ops.zeros_like(memory_NPRD[:, :, 0]))

    def step(self, ids_N, position, cache: TapeState, prepared: DecodeContext):
        """Returns (N, D) and the state after this position; see the base class."""
        keep_NP = repeat_sentences(prepared.encoded.keep, ops.shape(ids_N)[0])
        return self.decoder.step(self.target_embedding.before(ids_N), position, cache, keep_NP)
