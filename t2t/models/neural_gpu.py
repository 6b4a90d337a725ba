"""Neural GPUs learn algorithms on sequences: every position is updated repeatedly from itself and its neighbours.

Kaiser and Sutskever 2016 ("Neural GPUs Learn Algorithms"); Freivalds and Liepins 2017 ("Improving the Neural GPU
Architecture for Algorithm Learning").

Legend: B batch, S source length, P positions, T target length, R rows of the state, D width.
"""

from typing import Any, ClassVar

from keras import ops

from t2t.hparams.neural_gpu import DiagonalNeuralGpuHParams, NeuralGpuHParams
from t2t.layers.conv_gru import ConvGru, DiagonalConvGru, hard_tanh, in_first_row, unrolled
from t2t.layers.costs import Costed
from t2t.layers.unfolding import unfolded
from t2t.models.base import SequenceModel
from t2t.registry import register_model
from t2t.specs.constants import INPUTS, TARGETS
from t2t.specs.features import FeatureKind, ProblemSpec


@register_model
class NeuralGpu(SequenceModel):
    """Neural GPU: convolutional gated recurrent units, as many steps as positions.

    The state starts as the inputs, takes steps in proportion to their length, and ends as the outputs. An output has at
    most as many ids as the input, including end of sequence: the last ids of longer targets cannot be predicted.
    """

    hparams_class = NeuralGpuHParams
    compiles_with_xla = False
    accepts_inputs = (FeatureKind.TOKENS,)
    autoregressive = False
    unit_class: ClassVar[type[ConvGru]] = ConvGru
    has_hard_states: ClassVar[bool] = False
    """Whether initial states are limited to the range of `hard_tanh`, and saturation has a cost."""

    def __init__(self, hparams: NeuralGpuHParams, spec: ProblemSpec, dtype: str = "float32", **kwargs):
        super().__init__(hparams, spec, dtype, **kwargs)
        self.units = build_units(self.unit_class, hparams, self.dtype_policy)
        self.build()

    def build(self, input_shape=None):
        """Creates every weight."""
        self.build_modality_weights()
        for unit in self.units:
            unit.build()

    def body(self, features: dict[str, Any], seed=None):
        """Returns the first row of the last state, (B, T, D), or (B, P, D) without targets; see the base class."""
        inputs = features[INPUTS]
        x_BPD = self.source_embedding(inputs, seed=seed)
        start_BPRD = in_first_row(hard_tanh(x_BPD) if self.has_hard_states else x_BPD, self.hparams.state_rows)
        keep_BP = self.source_embedding.keep(inputs)
        last_BPRD, saturation = unrolled(self.units, start_BPRD, keep_BP, self.hparams.steps_per_position, seed)
        hidden_BPD = last_BPRD[:, :, 0]
        if TARGETS not in features:
            return hidden_BPD
        count = ops.shape(features[TARGETS])[1]
        hidden_BTD = ops.pad(hidden_BPD, ((0, 0), (0, count), (0, 0)))[:, :count]
        return Costed(hidden_BTD, self.hparams.saturation_cost * saturation) if self.has_hard_states else hidden_BTD


@register_model
class DiagonalNeuralGpu(NeuralGpu):
    """Neural GPU with diagonal gates, which copy neighbouring states, hard nonlinearities and a saturation cost."""

    hparams_class = DiagonalNeuralGpuHParams
    unit_class = DiagonalConvGru
    has_hard_states = True


def build_units(unit_class: type[ConvGru], hparams: NeuralGpuHParams, dtype: Any) -> list[ConvGru]:
    """Returns the units of a step, `num_hidden_layers` of them."""
    sizes = (hparams.hidden_size, hparams.state_rows, hparams.kernel_size, hparams.dropout)
    return [unit_class(*sizes, dtype=dtype, name=f"unit_{i}") for i in range(hparams.num_hidden_layers)]


def read_source(model: Any, features: dict[str, Any], seed=None) -> tuple[Any, Any]:
    """Returns the memory of a translator that has read the source, and which positions are each sentence's own.

    The memory has `unfolding_factor` times as many positions as the source, plus `unfolding_offset`, and takes
    `steps_per_position` steps per position.

    Args:
        model: with `units`, and hparams that include `UnfoldingHParams`.
        features: with inputs.
        seed: of dropout; None = none.

    Returns:
        (B, P, R, D), zeros beyond a sentence's own positions, and (B, P) bool.
    """
    hparams, inputs, embedding = model.hparams, features[INPUTS], model.source_embedding
    x_BSD = embedding(inputs, seed=seed)
    x_BPD, keep_BP = unfolded(x_BSD, embedding.keep(inputs), hparams.unfolding_factor, hparams.unfolding_offset)
    start_BPRD = in_first_row(x_BPD, hparams.state_rows)
    memory_BPRD, _ = unrolled(model.units, start_BPRD, keep_BP, hparams.steps_per_position, seed)
    return memory_BPRD, keep_BP
