"""Neural GPUs learn algorithms on sequences: every position is updated repeatedly from itself and its neighbours.

Kaiser and Sutskever 2016 ("Neural GPUs Learn Algorithms"); Freivalds and Liepins 2017 ("Improving the Neural GPU
Architecture for Algorithm Learning"). The Extended and the Markovian Neural GPU are active memories that translate:
Kaiser and Bengio 2016, *Can Active Memory Replace Attention?* (arXiv:1610.08613). Values of the Extended Neural GPU are
from its authors' code for translation (github.com/tensorflow/models, `research/neural_gpu`).

Legend: B batch, S source length, P positions of the memory, R rows of it, C channels, D width, T target length, N rows
decoded together.
"""

from dataclasses import dataclass

from t2t.hparams.base import HParams, Set, for_copying, for_multi30k
from t2t.hparams.field import param, training_fraction
from t2t.models.classics.byte_net import UnfoldingHParams
from t2t.registry import register_hparams


@dataclass(kw_only=True)
class NeuralGpuHParams(HParams):
    """A state with one or several rows of vectors, one for each position, which is updated step by step."""

    state_rows: int = param(1, "Number of rows of the state; the first one holds inputs and outputs.", minimum=1)
    kernel_size: int = param(
        3, "Kernel size of convolutions over positions and rows, odd.", minimum=1, only_shapes=True
    )
    steps_per_position: int = param(1, "Steps per input position; a step applies every layer.", minimum=1)
    dropout: float = training_fraction(
        0.1, "Dropout rate in each step, on the state, or on its new part (diagonal); a fraction."
    )

    def complaints(self) -> list[str]:
        """Checks that kernel_size is odd."""
        if self.kernel_size % 2 == 0:
            return [f"hparam kernel_size={self.kernel_size} is even; it must be odd, to have a middle"]
        return []


@dataclass(kw_only=True)
class DiagonalNeuralGpuHParams(NeuralGpuHParams):
    """Hard non-linearities with a loss on their saturation."""

    saturation_cost: float = param(
        0.0001, "Weight of the saturation loss: nats per input position with a mean saturation of 1.", minimum=0.0,
        only_trains=True,
    )  # fmt: skip


@dataclass(kw_only=True)
class ExtendedNeuralGpuHParams(NeuralGpuHParams, UnfoldingHParams):
    """A state with more positions than the source, from which a target of any length is written."""


@register_hparams
def neural_gpu() -> NeuralGpuHParams:
    """Tensor2Tensor's sizes: one row of 256 channels, one layer, as many steps as positions."""
    # Tensor2Tensor's rate is 0.00004 throughout, after 3,000 updates, with betas 0.85 and 0.997 and epsilon 1e-6; ours
    # is Adam's usual one, with the Transformer's constants.
    return _algorithmic(NeuralGpuHParams(hidden_size=256, num_hidden_layers=1, dropout=0.1)).replace(
        batch_size=1024, learning_rate=0.001, learning_rate_warmup_steps=100, clip_grad_norm=10.0
    )


@register_hparams
def neural_gpu_paper() -> NeuralGpuHParams:
    """Kaiser and Sutskever 2016: four rows of 24 channels, two layers, short inputs first, noise on gradients."""
    return neural_gpu().replace(
        hidden_size=24,
        state_rows=4,
        num_hidden_layers=2,
        dropout=0.09,
        clip_grad_norm=1.0,
        gradient_noise=0.001,  # the paper searches for its scale and does not print it
        curriculum_length=7,  # the first length of the authors' program, with end of sequence
        curriculum_steps=5000,  # theirs rises where errors are few
    )


@register_hparams
def diagonal_neural_gpu() -> DiagonalNeuralGpuHParams:
    """Freivalds and Liepins 2017: 96 channels, AdaMax, batches of several lengths."""
    return _algorithmic(DiagonalNeuralGpuHParams(hidden_size=96, num_hidden_layers=1, dropout=0.1)).replace(
        batch_size=1312,  # 32 examples of 41 ids
        effective_batch_size=8 * 1312,  # about one of each of the paper's lengths
        optimizer="adamax",
        optimizer_adam_beta2=0.999,
        optimizer_adam_epsilon=1e-8,
        optimizer_adamax_clip=1.2,  # the value of the authors' program
        learning_rate_schedule="cosine",
        learning_rate=0.005,  # 0.48 / channels, falling where the loss does not
        learning_rate_minimum=0.0001,
        learning_rate_warmup_steps=100,
        train_steps=20_000,
    )


@register_hparams
def diagonal_neural_gpu_addition() -> DiagonalNeuralGpuHParams:
    """The settings of Freivalds and Liepins's program for binary addition, with smaller updates: 48 channels."""
    return diagonal_neural_gpu().replace(
        hidden_size=48,
        dropout=0.5,
        learning_rate=0.01,
        learning_rate_minimum=0.0002,
        effective_batch_size=2 * 1312,  # further in the same time than with the program's 8 to 9 batches
        train_steps=10_000,
    )


@register_hparams
def neural_gpu_tiny() -> NeuralGpuHParams:
    """Learns to copy and reverse in seconds on two processor cores: 32 channels."""
    return neural_gpu().replace(
        hidden_size=32, dropout=0.0, learning_rate=0.005, learning_rate_schedule="cosine", train_steps=500
    )


@register_hparams
def diagonal_neural_gpu_tiny() -> DiagonalNeuralGpuHParams:
    """Learns to copy and reverse in seconds on two processor cores: 24 channels."""
    return diagonal_neural_gpu().replace(
        hidden_size=24, dropout=0.0, effective_batch_size=0, learning_rate=0.01, train_steps=500
    )


@register_hparams
def extended_neural_gpu() -> ExtendedNeuralGpuHParams:
    """The authors' program as it translates: four rows of 256 channels, two units, Adam."""
    return ExtendedNeuralGpuHParams(
        hidden_size=256,
        state_rows=4,
        num_hidden_layers=2,
        dropout=0.05,  # 0.1 * 3 / sqrt(length): here it is the same for all lengths
        shared_embedding=False,
        shared_embedding_and_softmax_weights=False,
        label_smoothing=0.1,
        label_smoothing_kind="others",
        max_length=60,
        batch_size=1024,  # 32 sentences
        optimizer_adam_beta2=0.999,
        optimizer_adam_epsilon=1e-3,
        learning_rate_schedule="constant",
        learning_rate=0.0005,  # falls there while the loss does not
        learning_rate_warmup_steps=0,
        clip_grad_norm=4.0,
        unfolding_offset=4,  # there the longer of both sides, and a bucket of lengths
    )


@register_hparams
def extended_neural_gpu_multi30k_tiny() -> ExtendedNeuralGpuHParams:
    """For Multi30k, as large as transformer_multi30k_tiny: one row of 144 channels, two units, dropout 0.05."""
    return for_multi30k(ExtendedNeuralGpuHParams(hidden_size=144, num_hidden_layers=2, dropout=0.05)).replace(
        batch_size=1225,  # an update has as many tokens as of the others, in parts: each step keeps the whole memory
        unfolding_offset=4,
        learning_rate=0.003,
        learning_rate_warmup_steps=500,
        clip_grad_norm=1.0,
    )


@register_hparams
def extended_neural_gpu_tiny() -> ExtendedNeuralGpuHParams:
    """Learns to copy and reverse in minutes on two processor cores: one row of 48 channels, one unit."""
    return for_copying(ExtendedNeuralGpuHParams(hidden_size=48, num_hidden_layers=1)).replace(
        unfolding_factor=1.0, learning_rate=0.005
    )


@register_hparams
def markovian_neural_gpu_multi30k_tiny() -> ExtendedNeuralGpuHParams:
    """For Multi30k, as large as transformer_multi30k_tiny: one row of 200 channels, two units, dropout 0.05."""
    return extended_neural_gpu_multi30k_tiny().replace(hidden_size=200)


@register_hparams
def markovian_neural_gpu_tiny() -> ExtendedNeuralGpuHParams:
    """Learns to copy and reverse in minutes on two processor cores: one row of 48 channels, one unit."""
    return extended_neural_gpu_tiny()


def _algorithmic(hparams: Set) -> Set:
    """Returns the set for tasks with exact answers: no label smoothing, separate tables, greedy decoding."""
    return hparams.replace(
        label_smoothing=0.0,
        shared_embedding_and_softmax_weights=False,
        max_length=64,
        learning_rate_schedule="constant",
        decode_method="greedy",
    )


# === The network ===
import functools
from collections.abc import Callable
from typing import ClassVar, NamedTuple

import keras
from keras import ops

from t2t.layers.beams import repeat_sentences
from t2t.layers.cache import StepCache
from t2t.layers.convolution import columns, resized, unfolded
from t2t.layers.dropout import Dropout, seed_of_step
from t2t.layers.loops import fold, scan
from t2t.layers.mode import Costed
from t2t.layers.residual import CompositeLayer
from t2t.layers.tensors import Features, Size, Tensor
from t2t.models.base import DecodeContext, EncoderDecoder, SequenceModel
from t2t.registry import register_model
from t2t.specs import INPUTS, TARGETS
from t2t.specs.features import FeatureKind, ProblemSpec


def saturating_sigmoid(x):
    """Returns max(0, min(1, 1.2 sigmoid(x) - 0.1)), reaching 0 and 1 (Kaiser and Sutskever 2016, "gate cutoff")."""
    return ops.clip(1.2 * ops.sigmoid(x) - 0.1, 0.0, 1.0)


def hard_sigmoid(x):
    """Returns max(0, min(1, (x + 1) / 2)) (Freivalds and Liepins 2017)."""
    return ops.clip(0.5 * x + 0.5, 0.0, 1.0)


def hard_tanh(x):
    """Returns max(-1, min(1, x)) (Freivalds and Liepins 2017)."""
    return ops.clip(x, -1.0, 1.0)


def saturation(x):
    """Returns the mean over channels of `max(0, |x| - 0.9)` (Freivalds and Liepins 2017), (...) float32 of (..., C).

    It is a cost on inputs of hard nonlinearities, whose gradients vanish beyond 1.
    """
    return ops.mean(ops.cast(ops.relu(ops.abs(x) - 0.9), "float32"), axis=-1)


class ConvGru(keras.layers.Layer):
    """The unit of the Neural GPU (Kaiser and Sutskever 2016, section 2).

    ::

        r = s(R * x + b_r),  u = s(U * x + b_u),  x' = u x + (1 - u) tanh(K * (r x) + b)

    where * is a zero-padded convolution over positions and rows, and s the saturating sigmoid. The biases of both gates
    are initially 1, as in Tensor2Tensor, so that a new network keeps its state. Dropout acts on x. With one row, the
    convolution is only along positions. `kernel_size` is odd.
    """

    gate_biases = (1.0, 1.0)
    """Initial biases of reset and update gate."""

    def __init__(self, channels: int, rows: int, kernel_size: int, dropout: float, **kwargs):
        super().__init__(**kwargs)
        self.channels, self.rows = channels, rows
        self.read_channels = channels
        self.kernel_shape = (kernel_size, kernel_size if rows > 1 else 1)
        self.dropout = Dropout(dropout, dtype=self.dtype_policy, name="dropout")

    def build(self, input_shape=None):
        """Creates the kernels and biases of the gates, reset before update, and of the candidate."""
        channels, inputs = self.channels, self.read_channels
        # Two kernels in one: each is initialised as Glorot uniform would initialise it alone.
        scale = (inputs + 2 * channels) / (inputs + channels)
        glorot = keras.initializers.VarianceScaling(scale, mode="fan_avg", distribution="uniform")
        gates, candidate = (*self.kernel_shape, inputs, 2 * channels), (*self.kernel_shape, inputs, channels)
        self.gates_kernel = self.add_weight(name="gates_kernel", shape=gates, initializer=glorot)
        self.gates_bias = self.add_weight(name="gates_bias", shape=(2 * channels,), initializer=self._open)
        self.candidate_kernel = self.add_weight(name="candidate_kernel", shape=candidate, initializer="glorot_uniform")
        self.candidate_bias = self.add_weight(name="candidate_bias", shape=(channels,), initializer="zeros")
        self.dropout.build()

    def _open(self, shape, dtype=None):
        return ops.cast(ops.repeat(ops.convert_to_tensor(self.gate_biases), shape[0] // 2), dtype)

    def stepper(self) -> Callable:
        """Returns `step(x_BPRC, seed) -> (x_BPRC, saturation_BPR)`; the latter is None if saturation has no cost.

        It reads the weights once, outside of the loop that calls the step.
        """
        return functools.partial(self.step, *self._convolutions())

    def step(self, gates: Callable, candidate: Callable, x, seed):
        """Returns the next state and its saturation, see `stepper`."""
        x = self.dropout(x, seed=seed)
        reset, update = ops.split(saturating_sigmoid(gates(x)), 2, axis=-1)
        return update * x + (1.0 - update) * ops.tanh(candidate(reset * x)), None

    def _convolutions(self) -> tuple[Callable, Callable]:
        def convolution(*weights) -> Callable:
            kernel, bias = (ops.cast(weight, self.compute_dtype) for weight in weights)
            return lambda x_BPRC: ops.conv(x_BPRC, kernel, padding="same", data_format="channels_last") + bias

        gates = convolution(self.gates_kernel, self.gates_bias)
        return gates, convolution(self.candidate_kernel, self.candidate_bias)


class DiagonalConvGru(ConvGru):
    """The unit of the diagonal Neural GPU (Freivalds and Liepins 2017).

        r = s(R * x + b_r),  u = s(U * x + b_u),  x' = u shift(x) + (1 - u) t(K * (r x) + b)

    where s and t are the hard sigmoid and tanh, and `shift` moves a third of the channels one position ahead and a
    third one back, so that open gates carry information along the sequence. Dropout acts on the candidate.
    """

    gate_biases = (0.5, 0.7)

    def step(self, gates: Callable, candidate: Callable, x, seed):
        """Returns the next state and its saturation, see `stepper`."""
        into_gates = gates(x)
        reset, update = ops.split(hard_sigmoid(into_gates), 2, axis=-1)
        into_candidate = candidate(reset * x)
        fresh = self.dropout(hard_tanh(into_candidate), seed=seed)
        saturated = (2.0 * saturation(into_gates) + saturation(into_candidate)) / 3.0
        return update * shifted(x) + (1.0 - update) * fresh, saturated


class TapeConvGru(ConvGru):
    """The unit of the Extended Neural GPU's decoder, which also reads a tape p (Kaiser and Bengio 2016).

        r = s(R * [x; p] + b_r),  u = s(U * [x; p] + b_u),  x' = u x + (1 - u) tanh(K * [r x; p] + b)

    with the saturating sigmoid s. Dropout acts on x.
    """

    def __init__(self, channels: int, rows: int, kernel_size: int, dropout: float, **kwargs):
        super().__init__(channels, rows, kernel_size, dropout, **kwargs)
        self.read_channels = 2 * channels

    def stepper(self) -> Callable:
        """Returns `step(x_BPRC, tape_BPRC, seed) -> x_BPRC`; see the base class."""
        gates, candidate = self._convolutions()

        def step(x, tape, seed):
            x = self.dropout(x, seed=seed)
            reset, update = ops.split(saturating_sigmoid(gates(ops.concatenate([x, tape], axis=-1))), 2, axis=-1)
            fresh = ops.tanh(candidate(ops.concatenate([reset * x, tape], axis=-1)))
            return update * x + (1.0 - update) * fresh

        return step


def in_first_row(x_BPC, rows: int):
    """Returns a state (B, P, R, C) of `rows` rows, zeros except for the first."""
    return ops.pad(x_BPC[:, :, None], ((0, 0), (0, 0), (0, rows - 1), (0, 0)))


def shifted(x_BPRC):
    """Moves a third of the channels to the next position and a third to the previous one, and fills with zeros.

    The channels that stay come first; if C is not a multiple of 3, there are more of them.
    """
    moving = x_BPRC.shape[-1] // 3
    if not moving:
        return x_BPRC
    still, ahead, back = ops.split(x_BPRC, [x_BPRC.shape[-1] - 2 * moving, x_BPRC.shape[-1] - moving], axis=-1)
    ahead = ops.pad(ahead[:, :-1], ((0, 0), (1, 0), (0, 0), (0, 0)))
    back = ops.pad(back[:, 1:], ((0, 0), (0, 1), (0, 0), (0, 0)))
    return ops.concatenate([still, ahead, back], axis=-1)


def unrolled(units: list[ConvGru], start_BPRC, keep_BP, steps_per_position: int, seed=None) -> tuple[Tensor, Tensor]:
    """Returns the state after all steps, and the saturation.

    A row with data at n positions takes n * `steps_per_position` steps of all units in turn, whatever the padding:
    positions without data stay zero, and finished rows stay unchanged.

    Args:
        units: of equal channels and rows, built.
        start_BPRC: any float type.
        keep_BP: bool, True at data.
        steps_per_position: at least 1.
        seed: of dropout; None = none.

    Returns:
        (B, P, R, C), and the saturation, () float32: a mean over units, steps and rows, a sum over positions and batch.
    """
    steppers = [unit.stepper() for unit in units]
    steps_B = steps_per_position * ops.sum(ops.cast(keep_BP, "int32"), axis=1)
    share_B = 1.0 / (len(units) * ops.cast(ops.maximum(steps_B, 1), "float32"))
    weights_BP = ops.cast(keep_BP, "float32") * share_B[:, None]

    def step(i, x_BPRC, cost):
        goes_on_BP = ops.logical_and(keep_BP, (i < steps_B)[:, None])
        # At positions without data the state is zero from the start.
        goes_on_BP11 = goes_on_BP[:, :, None, None]
        for advance in steppers:
            fresh_BPRC, saturated_BPR = advance(x_BPRC, seed_of_step(seed, i))
            x_BPRC = ops.where(goes_on_BP11, fresh_BPRC, x_BPRC)
            if saturated_BPR is not None:
                saturated_BP = ops.mean(saturated_BPR, axis=-1)
                cost = cost + ops.sum(ops.where(goes_on_BP, saturated_BP * weights_BP, 0.0))
        return x_BPRC, cost

    start_BPRC = start_BPRC * ops.cast(keep_BP, start_BPRC.dtype)[:, :, None, None]
    most = None if keep_BP.shape[1] is None else steps_per_position * keep_BP.shape[1]
    return fold(0, ops.max(steps_B), step, (start_BPRC, ops.zeros((), "float32")), most)


class TapeState(NamedTuple):
    """The state of the decoder after a step."""

    memory: Tensor
    """(N, P, R, C)."""
    tape: Tensor
    """(N, P, C): the vectors of the words so far, each at its position, then zeros."""


class _Written(NamedTuple):
    memory: Tensor
    hidden: Tensor
    """(B, C): the last step's input of the output layer."""


class TapeDecoder(CompositeLayer):
    """Steps of `TapeConvGru` units, each of which changes the whole memory and writes one word.

    ::

        d_(t+1) = CGRU(d_t, p_t),  the output of step t is d_(t+1) at position t, in the first row

    where p_t, the tape, holds each word before position t at its own position. If targets are longer than the memory,
    its last position writes the remaining words, which are not on the tape.
    """

    def __init__(self, channels: int, rows: int, kernel_size: int, num_layers: int, dropout: float, **kwargs):
        super().__init__(**kwargs)
        self.rows = rows
        self.units = [
            TapeConvGru(channels, rows, kernel_size, dropout, dtype=self.dtype_policy, name=f"unit_{i}")
            for i in range(num_layers)
        ]

    def call(self, x_BTC, memory_BPRC, keep_BP, seed=None):
        """Returns the outputs of all steps (B, T, C).

        Args:
            x_BTC: the word before each position.
            memory_BPRC: the encoder's memory, zeros beyond the end of a sentence.
            keep_BP: bool, False beyond the end of a sentence.
            seed: of dropout; None = none.
        """
        advance = self._stepper(keep_BP)
        words_BPC = resized(x_BTC[:, 1:], ops.shape(keep_BP)[1])

        def step(before: _Written, given):
            position = given[0][0]
            written_P1 = ops.arange(ops.shape(words_BPC)[1])[:, None] < position
            tape_BPC = words_BPC * ops.cast(written_P1, words_BPC.dtype)
            return _Written(*advance(before.memory, tape_BPC, position, seed_of_step(seed, position)))

        positions_T1 = ops.arange(ops.shape(x_BTC)[1])[:, None]
        _, states = scan(step, _Written(memory_BPRC, x_BTC[:, 0]), (positions_T1,))
        return ops.transpose(states.hidden, (1, 0, 2))

    def step(self, x_NC, position, state: TapeState, keep_NP) -> tuple[Tensor, TapeState]:
        """Returns the output of one step (N, C), that of `call` at `position`, () int32, and the next state."""
        is_new_P1 = ops.equal(ops.arange(ops.shape(state.tape)[1]), position - 1)[:, None]
        tape_NPC = ops.where(is_new_P1, x_NC[:, None], state.tape)
        memory_NPRC, hidden_NC = self._stepper(keep_NP)(state.memory, tape_NPC, position, None)
        return hidden_NC, TapeState(memory_NPRC, tape_NPC)

    def _stepper(self, keep_NP) -> Callable:
        """Returns `advance(memory_NPRC, tape_NPC, position, seed) -> (memory_NPRC, hidden_NC)`."""
        steppers = [unit.stepper() for unit in self.units]
        last_N1 = ops.sum(ops.cast(keep_NP, "int32"), axis=1)[:, None] - 1
        place_P = ops.arange(ops.shape(keep_NP)[1])
        keep_NP1 = keep_NP[:, :, None]

        def advance(memory_NPRC, tape_NPC, position, seed):
            # Words beyond the end of a sentence would be read by its last position.
            tape_NPRC = in_first_row(tape_NPC * ops.cast(keep_NP1, tape_NPC.dtype), self.rows)
            for unit in steppers:
                memory_NPRC = ops.where(keep_NP1[..., None], unit(memory_NPRC, tape_NPRC, seed), memory_NPRC)
            is_read_NP = ops.equal(place_P, ops.minimum(position, last_N1))
            hidden_NC = ops.sum(memory_NPRC[:, :, 0] * ops.cast(is_read_NP, memory_NPRC.dtype)[..., None], axis=1)
            return memory_NPRC, hidden_NC

        return advance


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

    def body(self, features: Features, seed=None):
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


def build_units(unit_class: type[ConvGru], hparams: NeuralGpuHParams, dtype: keras.DTypePolicy) -> list[ConvGru]:
    """Returns the units of a step, `num_hidden_layers` of them."""
    sizes = (hparams.hidden_size, hparams.state_rows, hparams.kernel_size, hparams.dropout)
    return [unit_class(*sizes, dtype=dtype, name=f"unit_{i}") for i in range(hparams.num_hidden_layers)]


def read_source(model: SequenceModel, features: Features, seed=None) -> tuple[Tensor, Tensor]:
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


class SourceMemory(NamedTuple):
    """The encoded source sentences."""

    memory: Tensor
    """(B, P, R, D), zeros beyond the sentence's own positions."""
    keep: Tensor
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

    def body(self, features: Features, seed=None):
        """Returns the decoder's output, (B, T, D); see the base class."""
        memory_BPRD, keep_BP = self.encode(features, seed=seed)
        shifted_BT = ops.pad(features[TARGETS][:, :-1], ((0, 0), (1, 0)))
        return self.decoder(self.target_embedding.before(shifted_BT, seed=seed), memory_BPRD, keep_BP, seed=seed)

    def encode(self, features: Features, seed=None) -> SourceMemory:
        """Returns the memory after all steps of the encoder."""
        return SourceMemory(*read_source(self, features, seed))

    def init_cache(self, encoded: SourceMemory, rows: Size, length: Size | None, beams: int = 1) -> TapeState:
        """Returns each hypothesis's memory and an empty tape, both independent of `length`; see the base class."""
        memory_NPRD = repeat_sentences(encoded.memory, rows)
        return TapeState(memory_NPRD, ops.zeros_like(memory_NPRD[:, :, 0]))

    def step(self, ids_N, position, cache: TapeState, prepared: DecodeContext):
        """Returns (N, D) and the state after this position; see the base class."""
        keep_NP = repeat_sentences(prepared.encoded.keep, ops.shape(ids_N)[0])
        return self.decoder.step(self.target_embedding.before(ids_N), position, cache, keep_NP)


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

    def encode(self, features: Features, seed=None):
        """Returns the first row of the memory after all steps, (B, P, D), zeros beyond a sentence's own positions."""
        memory_BPRD, _ = read_source(self, features, seed)
        return memory_BPRD[:, :, 0]

    def decode(self, ids, encoded, keep_BT=None, cache: StepCache | None = None, seed=None):
        """Returns the memory at each position plus a map of the word before it; see the base class."""
        return columns(encoded, ids, cache) + self.word_map(self.target_embedding.before(ids, seed=seed))
