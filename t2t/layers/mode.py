"""How layers run: what they record, and what the program that is being built supports.

One frozen `Mode` holds within a block of code, for the thread that runs it, and applies to all layers called in it.

Layers may run several times in one forward pass, as in a recurrence over depth: their weights are the same in each
pass, but cache entries and recorded attention weights, which are stored by the path of a layer, have a separate name
for each. Programs may be built without hand-written gradients, and for converters to other formats, which support fewer
operations than TensorFlow. Costs that layers add to the loss, e.g. for unevenly used experts, are gathered while a body
runs.

Legend: B batch, or sentences, T length, S keys, H heads, C channels, U columns, N rows, K beams of a sentence, J chosen
ones.
"""

import contextlib
import contextvars
import dataclasses
import functools
from collections.abc import Callable, Iterator
from contextvars import ContextVar
from typing import Any, NamedTuple, TypeVar

from keras import ops

from t2t.layers.tensors import Features, Size, Tensor
from t2t.specs import INPUTS, TARGETS

Record = dict[str, list[Tensor]]
"""Path of a layer, or its `entry_name` -> the weights of each of its calls, (B, H, T, S) float32, in order."""


@dataclasses.dataclass
class Costs:
    """The costs that layers have added; each is () float32, in nats."""

    features: Features | None = None
    """The batch, of which rows of padding do not count, see `counted`; None = all rows are examples."""
    per_target: list[Tensor] = dataclasses.field(default_factory=list)
    """Added to the mean loss per target; each is of the batch as a whole."""
    summed: list[Tensor] = dataclasses.field(default_factory=list)
    """Added to the summed loss; each is a sum over rows, in which padding does not count."""


class Kernels:
    """Operations of attention and of searches. A backend may replace them by faster ones without gradients."""

    def product(self, x_TC, y, transposed: bool = False) -> Tensor:
        """Returns x y of (..., T, C) and (..., C, U); or x y^T, where y is (..., U, C)."""
        return ops.matmul(x_TC, ops.swapaxes(y, -1, -2) if transposed else y)

    def float32_product(self, x_TC, y_SC) -> Tensor:
        """Returns x y^T, (..., T, S) float32, of 16-bit numbers, whose products are exact."""
        return self.product(ops.cast(x_TC, "float32"), ops.cast(y_SC, "float32"), transposed=True)

    def softmax(self, scores_TS) -> Tensor:
        """Returns the softmax over the last axis of (..., T, S)."""
        return ops.softmax(scores_TS, axis=-1)

    def exchange(self, x_BTHC) -> Tensor:
        """Returns positions and heads exchanged: (B, H, T, C) of (B, T, H, C), or the reverse."""
        _, first, second, channels = x_BTHC.shape
        if 1 in (first, second) and None not in (first, second):  # nothing moves
            return ops.reshape(x_BTHC, (-1, second, first, channels))
        return ops.transpose(x_BTHC, (0, 2, 1, 3))

    def attention(self, q_BHTC, k_BJSC, v_BJSU, keep, causal: bool) -> Tensor | None:
        """Returns attention, (B, H, T, U), by one operation; None where there is none, for products and a softmax.

        `keep` is bool, broadcastable to (B, H, T, S), or None; H / J neighbouring heads share keys and values.
        """
        return None

    def take_rows(self, x, rows_J) -> Tensor:
        """Returns (J, ...), rows of (N, ...) at indices in [0, N), int32."""
        return ops.take(x, rows_J, axis=0)

    def take_beams(self, x, beams_BJ) -> Tensor:
        """Returns (B, J, ...), beams of each sentence of (B, K, ...) at indices in [0, K), int32."""
        shape = ops.shape(x)
        return ops.take(ops.reshape(x, (shape[0] * shape[1], *shape[2:])), row_numbers(beams_BJ, shape[1]), axis=0)


def row_numbers(beams_BJ, beam_size: Size) -> Tensor:
    """Returns the rows (B, J) int32 that beams of each sentence are among the B * K rows of all, K being the size."""
    first_rows_B = ops.arange(ops.shape(beams_BJ)[0], dtype="int32") * beam_size
    return beams_BJ + first_rows_B[:, None]


@dataclasses.dataclass(frozen=True)
class Mode:
    """How layers run; the default is training or evaluating eagerly, without recording anything."""

    costs: Costs | None = None
    """To which layers add their costs; None outside of a body, as in decoding."""
    record: Record | None = None
    """To which every attention adds its weights; None = nothing is recorded.

    Weights may be used only where they were computed: eagerly, or within the same program. Attention is then computed
    over whole matrices, since blockwise attention never holds its weights.
    """
    layer_pass: int | None = None
    """The number, from 0, of the pass in which layers run; None outside of passes."""
    gradients: bool = True
    """Whether gradients are wanted.

    TensorFlow keeps every graph with a hand-written gradient until the process ends, so that a service would grow with
    every search that it compiles.
    """
    blockwise_attention: bool = True
    """Whether attention may be blockwise; not in programs whose operations are counted."""
    kernels: Kernels = dataclasses.field(default_factory=Kernels)
    """How attention multiplies, normalizes and transposes, and how rows are taken."""
    rows_per_sentence: int | None = None
    """Hypotheses of each sentence in the steps of a search; None = not known when the program is built."""
    counted_loops: bool = False
    """Whether loops run their maximum number of iterations, which JAX needs for gradients."""
    layer_loops: bool = False
    """Whether layers of one network are a loop, as XLA's time grows with a program; see `t2t.layers.loops`."""
    for_converters: bool = False
    """Whether the program has no lists of tensors, loops over blocks of attention and Fourier transforms.

    It computes the same with more memory or time, and must not be differentiated.
    """


_mode: ContextVar[Mode] = contextvars.ContextVar("mode")
_DEFAULT = Mode()
Value = TypeVar("Value")


def current_mode() -> Mode:
    """Returns the mode of this thread."""
    return _mode.get(_DEFAULT)


@contextlib.contextmanager
def in_mode(**changes: Any) -> Iterator[Mode]:
    """Context whose value is the current `Mode` with changes, in which layers run."""
    with held(_mode, dataclasses.replace(current_mode(), **changes)) as mode:
        yield mode


@contextlib.contextmanager
def held(variable: ContextVar[Value], value: Value) -> Iterator[Value]:
    """Sets a variable within the block, and restores its previous value afterwards."""
    token = variable.set(value)
    try:
        yield value
    finally:
        variable.reset(token)


def entry_name(path: str) -> str:
    """Returns the name under which a layer's values of the current pass are stored; outside of passes, its path."""
    number = current_mode().layer_pass
    return path if number is None else name_of_pass(path, number)


def name_of_pass(path: str, number: int) -> str:
    """Returns the name under which a layer's values of a pass are stored."""
    # The last part stays last: it identifies the kind of attention.
    parent, _, name = path.rpartition("/")
    return f"{parent}/step_{number}/{name}"


def custom_gradient(function: Callable) -> Callable:
    """Does the same as `keras.ops.custom_gradient`, but not in a mode without gradients.

    Args:
        function: of tensors; returns its result and the function from the gradient of that to those of the tensors,
            None for an integer or bool. Other tensors that it uses must be constants: in a loop of JAX, what is
            computed in the same iteration has to be one of its tensors.
    """
    with_gradient = ops.custom_gradient(function)

    def call(*tensors):
        return with_gradient(*tensors) if current_mode().gradients else function(*tensors)[0]

    return call


def counted(keep_BT: Tensor) -> Tensor:
    """Returns the positions of `keep_BT` (B, T) bool whose costs count: those of examples.

    Inputs and targets of a row that pads a batch are all zeros. It keeps a position of its inputs if these are not
    text, as an example of silence does.
    """
    costs = current_mode().costs
    if costs is None or costs.features is None:
        return keep_BT
    given = [costs.features[name] for name in (INPUTS, TARGETS) if name in costs.features]
    is_held = [ops.any(ops.not_equal(x, 0), axis=tuple(range(1, len(x.shape)))) for x in given]
    return ops.logical_and(keep_BT, functools.reduce(ops.logical_or, is_held)[:, None])


def add_cost(cost: Tensor) -> None:
    """Adds a cost per target, see `Costs`; does nothing outside of a body, as in decoding."""
    if (costs := current_mode().costs) is not None:
        costs.per_target.append(cost)


def add_summed_cost(cost: Tensor) -> None:
    """Adds a summed cost, see `Costs`; does nothing outside of a body, as in decoding."""
    if (costs := current_mode().costs) is not None:
        costs.summed.append(cost)


class Costed(NamedTuple):
    """Hidden states of a model with a cost besides the loss of its predictions, e.g. of saturated gates."""

    hidden: Tensor
    """The input of `SequenceModel.logits`."""
    cost: Tensor | float = 0.0
    """() float32, nats, added to the summed loss: a sum over rows in which padding does not count."""
    cost_per_target: Tensor | float = 0.0
    """() float32, nats per target, added to the mean loss: of the batch as a whole, not a sum over rows.

    If an update has several parts (replicas, micro-batches), their costs are averaged, weighted by their targets.
    """


def without_costs(hidden: "Tensor | Costed") -> Tensor:
    """Returns the hidden states from the result of `SequenceModel.body`."""
    return hidden.hidden if isinstance(hidden, Costed) else hidden


def with_costs(hidden: Tensor, costs: Costs) -> "Tensor | Costed":
    """Returns hidden states as `Costed` if layers have added costs, else unchanged."""
    if not costs.summed and not costs.per_target:
        return hidden
    return Costed(hidden, sum(costs.summed, start=0.0), sum(costs.per_target, start=0.0))
