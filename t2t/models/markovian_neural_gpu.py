"""The Markovian Neural GPU: active memory whose words depend on the word before them (Kaiser and Bengio 2016).

*Can Active Memory Replace Attention?* (arXiv:1610.08613).

Legend: B batch, P positions of the memory, R rows of it, T target length, D width, N rows decoded together.
"""

from typing import Any

import keras

from t2t.hparams.neural_gpu import ExtendedNeuralGpuHParams
from t2t.layers.cache import StepCache
from t2t.layers.conv_gru import ConvGru
from t2t.layers.residual import build_all
from t2t.layers.unfolding import columns
from t2t.models.encoder_decoder import EncoderDecoder
from t2t.models.neural_gpu import build_units, read_source
from t2t.registry import register_model
from t2t.specs.features import FeatureKind, ProblemSpec


@register_model
class MarkovianNeuralGpu(EncoderDecoder):
    """Markovian Neural GPU: active memory that has read the source; position t and the word before write word t.

    It is what the Extended Neural GPU is compared with: the memory does not change while the target is written, and of
    the words so far only the last one is known.
    """

    hparams_class = ExtendedNeuralGpuHParams
    compiles_with_xla = False
    accepts_inputs = (FeatureKind.TOKENS,)

    def __init__(self, hparams: ExtendedNeuralGpuHParams, spec: ProblemSpec, dtype: str = "float32", **kwargs):
        super().__init__(hparams, spec, dtype, **kwargs)
        self.units = build_units(ConvGru, hparams, self.dtype_policy)
        self.word_map = keras.layers.Dense(
            hparams.hidden_size, use_bias=False, dtype=self.dtype_policy, name="word_map"
        )
        self.build()

    def build(self, input_shape=None):
        """Creates every weight."""
        self.build_modality_weights()
        for unit in self.units:
            unit.build()
        build_all((self.word_map,), (None, None, self.hparams.hidden_size))

    def encode(self, features: dict[str, Any], seed=None):
        """Returns the first row of the memory after all steps, (B, P, D), zeros beyond a sentence's own positions."""
        memory_BPRD, _ = read_source(self, features, seed)
        return memory_BPRD[:, :, 0]

    def decode(self, ids, encoded, keep_BT=None, cache: StepCache | None = None, seed=None):
        """Returns the memory at each position plus a map of the word before it; see the base class."""
        return columns(encoded, ids, cache) + self.word_map(self.target_embedding.before(ids, seed=seed))
