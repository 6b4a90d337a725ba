"""Convolutional gated recurrent units: all positions of a state change at once, each depending on its neighbours.

Legend: B batch, P positions, R rows of the state, C channels.
"""

import functools
from collections.abc import Callable
from typing import Any

import keras
from keras import ops

from t2t.layers.dropout import Dropout, seed_of_step
from t2t.layers.loops import fold


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
        pairs = (self.gates_kernel, self.gates_bias), (self.candidate_kernel, self.candidate_bias)
        gates, candidate = (self._convolution(kernel, bias) for kernel, bias in pairs)
        return gates, candidate

    def _convolution(self, kernel, bias) -> Callable:
        kernel, bias = (ops.cast(weight, self.compute_dtype) for weight in (kernel, bias))
        return lambda x_BPRC: ops.conv(x_BPRC, kernel, padding="same", data_format="channels_last") + bias


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


def unrolled(units: list[ConvGru], start_BPRC, keep_BP, steps_per_position: int, seed=None) -> tuple[Any, Any]:
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
