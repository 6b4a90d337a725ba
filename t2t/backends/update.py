"""What an update of the weights is made of, as functions of values: its loss, rules, seeds and figures.

    update = sum of token losses over all replicas and micro-batches / their global token count;
    then the gradients are reduced, clipped by global norm, and applied.

`keras.Model.fit` clips before it reduces and averages per-replica means; both are wrong for token batches, so updates
are written out in each backend: `t2t.backends.tensorflow.update`, `t2t.backends.jax.update`. An update whose gradient
is not finite changes nothing but the loss scale.

In a model of several problems, each update trains one of them. Weights that its loss does not depend on, such as the
modalities of the others, stay unchanged, and so do their slots and moving averages: nothing decays because of another
problem. Rules that depend on the number of updates, e.g. Adam's bias correction, count the updates of all problems.

Statistics are variables without a gradient that a forward pass in training assigns, such as the moving means of batch
norms. They change once per update, by the mean of the changes that each replica and micro-batch computes, weighted by
their tokens.
"""

import abc
import dataclasses
import hashlib
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import Future
from typing import Any, NamedTuple

import keras
import numpy as np
from keras import ops

from t2t.layers.adapters import Adapters
from t2t.models.base import SequenceModel
from t2t.registry.overrides import PluginError, described

Features = dict[str, Any]

NOISE_FALL = 0.55
"""The variance of gradient noise falls with update^0.55 (Neelakantan et al. 2015, arXiv:1511.06807, section 3).

About the root, as in Kaiser and Sutskever (2016, "gradient noise"), whose program has this exponent.
"""


@dataclasses.dataclass(frozen=True, kw_only=True)
class UpdateRules:
    """How updates are computed."""

    run_seed: int = 0
    """Of the dropout masks and the gradient noise."""
    clip_grad_norm: float = 0.0
    """Largest global norm; 0 = none."""
    weight_decay: float = 0.0
    """Decoupled decay of weights of two or more dimensions."""
    gradient_noise: float = 0.0
    """Standard deviation of the noise on the first gradient, see `NOISE_FALL`; 0 = none."""
    ema_decay: float = 0.0
    """Decay of the moving average of the weights; 0 = none."""
    xla: bool = False
    """Whether XLA compiles the gradient of a batch."""
    fused_attention: bool = False
    """Whether attention is one operation, where the backend has one for the device."""
    scale_loss: bool = False
    """Whether to scale the loss dynamically (float16), see `LossScale`."""
    reduction_dtype: str = "float32"
    """Type in which several replicas sum their gradients."""

    def noise_deviation(self, done: Any) -> Any:
        """Returns the deviation of the gradient noise, () float32, after `done` updates of the run, () int."""
        return self.gradient_noise * ops.cast(done + 1, "float32") ** (-NOISE_FALL / 2)

    def decay(self, weight: Any, rate: Any) -> None:
        """Applies the decoupled decay to a weight, before the optimizer's rule."""
        if self.weight_decay and len(weight.shape) >= 2:
            weight.assign_sub(weight * (rate * self.weight_decay))

    @staticmethod
    def average(mean: Any, weight: Any, share: Any) -> None:
        """Moves a moving average towards a new weight, whose share in it is 1 - `ema_decay`."""
        mean.assign_add((weight - mean) * share)


class UpdateStats(NamedTuple):
    """Results of an update, as tensors on the device; reading one waits for the update to finish."""

    loss_sum: Any
    """() float32: training loss summed over all tokens, nats."""
    tokens: Any
    """() float32: number of target tokens (or examples) that the loss is over."""
    grad_norm: Any
    """() float32: norm of the gradient before clipping."""
    finite: Any
    """() bool: whether the update was applied."""
    padded: Any
    """() float32: number of target tokens (or examples) with padding."""
    stops: Any
    """() float32: above 0 if a worker asks all to stop."""
    loss_scale: Any
    """() float32: the factor of its loss, see `LossScale`."""


class Update(abc.ABC):
    """The compiled programs of updates; they minimize a loss on all devices."""

    ema: Sequence[Any]
    """Variables with the moving averages of the trained weights; empty if none are kept."""
    loss_scale: "LossScale"
    compiles_meanwhile: bool = False
    """Whether programs are compiled while updates run, and `compile` does not wait for them."""
    jobs: Sequence[Future] = ()
    """Of the threads that compile."""

    @abc.abstractmethod
    def __call__(
        self,
        micro_batches: Sequence[Sequence[Features]],
        update: int,
        rate: float,
        problem: str,
        applies: bool,
        stops: bool = False,
    ) -> UpdateStats:
        """Computes an update, see `t2t.training.step.UpdateStep`, and applies it if it `applies`."""

    @abc.abstractmethod
    def compile(self, updates: Iterable[Sequence[Sequence[Features]]], problem: str) -> None:
        """Compiles the programs of updates in parallel if the backend can; errors are raised when they are used."""

    def stop_compiling(self) -> None:
        """Leaves programs whose compilation has not begun to the first update that uses them."""
        for job in self.jobs:
            job.cancel()

    @property
    def is_compiling(self) -> bool:
        """Whether programs are being compiled for later updates."""
        return not all(job.done() for job in self.jobs)


# === The loss as a function of values ===


class BatchLoss(NamedTuple):
    """The loss of one batch: sums, to be divided by the tokens of the whole update."""

    minimized: Any
    """() float32: the sum to differentiate."""
    loss_sum: Any
    """() float32: the reported loss, summed over tokens, in nats."""
    tokens: Any
    """() float32: number of target tokens (or examples)."""


@dataclasses.dataclass(frozen=True)
class Forward:
    """The result of a forward pass; variables are given by their index in `LossFunction.variables`."""

    loss: BatchLoss
    read: list[int]
    """Variables that were read."""
    statistics: dict[int, tuple[Any, Any]]
    """Variables that were assigned -> values before and after."""


class LossFunction:
    """Computes the loss of a batch from given values of the variables, for a backend to differentiate.

    Args:
        model: of one problem or several; owns the variables.
        loss: (model, features, seed) -> loss of a batch, computed by the model.
        adapters: trained in place of the model's weights; None to train the weights.
    """

    def __init__(
        self,
        model: SequenceModel,
        loss: Callable[[SequenceModel, Features, Any], BatchLoss],
        adapters: Adapters | None = None,
    ):
        self._model, self._loss, self._adapters = model, loss, adapters
        self.trained: list[keras.Variable] = model.trainable_variables if adapters is None else adapters.variables
        """Variables that have a gradient."""
        self.variables = [*self.trained, *model.non_trainable_variables]
        """Those, and the statistics."""
        self._numbers = {id(variable): number for number, variable in enumerate(self.variables)}

    def model_of(self, problem: str) -> SequenceModel:
        """Returns the model of a problem ("" if the model has one)."""
        return self._model.for_problem(problem) if problem else self._model

    def __call__(self, problem: str, values: Sequence[Any], features: Features, seed: Any) -> Forward:
        """Returns the loss of a batch of a problem for these values of the variables."""
        # Otherwise Keras would initialize all pending variables of the process at the end of the scope.
        scope = _Scope(state_mapping=self._mapping(values), initialize_variables=False)
        before = [scope.get_current_value(variable) for variable in self.variables]
        scope.read.clear()
        with scope:
            loss = self._loss(self.model_of(problem), features, seed)
        if sizes := [tuple(one.shape) for one in loss if len(getattr(one, "shape", ()))]:
            raise PluginError(
                f"{described(self._loss)} returned a BatchLoss with shape {sizes[0]}", "return three sums"
            )
        read = self._read(scope.read)
        after = [scope.get_current_value(variable) for variable in self.variables]
        pairs = list(zip(before, after, strict=True))
        assigned = [n for n in range(len(self.trained), len(pairs)) if pairs[n][0] is not pairs[n][1]]
        return Forward(loss, read, {number: pairs[number] for number in assigned})

    def _read(self, ids: set[int]) -> list[int]:
        """Returns the indices of variables by id(); reading an adapted weight counts as reading its factors."""
        found = {self._numbers[one] for one in ids if one in self._numbers}
        if self._adapters is not None:
            for pair, weight in enumerate(self._adapters.weights):
                found |= {2 * pair, 2 * pair + 1} if id(weight) in ids else set()
        return sorted(found)

    def _mapping(self, values: Sequence[Any]) -> list[tuple[keras.Variable, Any]]:
        """Returns (variable, value) pairs; adapted weights follow a second time, with the adapter added."""
        mapping = list(zip(self.variables, values, strict=True))
        if self._adapters is None:
            return mapping
        return mapping + self._adapters.adapted({variable.path: value for variable, value in mapping})


class _Scope(keras.StatelessScope):
    """A scope that records which variables are read in it."""

    def __init__(self, **kwargs):
        super().__init__(**kwargs)
        self.read: set[int] = set()
        """Their ids."""

    def get_current_value(self, ref):
        """Returns the value of a variable."""
        self.read.add(id(ref))
        return super().get_current_value(ref)


# === The scale of the loss ===

INITIAL_SCALE = 2.0**15
GROWTH_INTERVAL = 2000
MINIMUM_SCALE = 1.0


class LossScale:
    """The factor of the loss for float16 (Micikevicius et al. 2018, section 3.2); always 1 if not `dynamic`.

    The loss is multiplied so that small gradients do not underflow; the update divides them again. The factor halves
    when a gradient overflows, down to `MINIMUM_SCALE`, and doubles after `growth_interval` updates without one.
    """

    def __init__(self, dynamic: bool, growth_interval: int = GROWTH_INTERVAL):
        self.dynamic, self._growth_interval = dynamic, growth_interval
        self.variables: list[keras.Variable] = []
        if dynamic:
            self._scale = keras.Variable(INITIAL_SCALE, dtype="float32", trainable=False, name="loss_scale")
            self._good = keras.Variable(0, dtype="int32", trainable=False, name="loss_scale_good_updates")
            self.variables = [self._scale, self._good]

    def value(self) -> Any:
        """Returns the factor, () float32."""
        return self._scale.value * 1.0 if self.dynamic else ops.convert_to_tensor(1.0)  # a tensor, not the variable

    def update(self, finite: Any, applies: Any = True) -> None:
        """Updates the loss scale from whether the last gradient was finite; unchanged by warm-up steps (`applies`)."""
        if not self.dynamic:
            return
        good = ops.where(finite, self._good.value + 1, 0)
        grow = good >= self._growth_interval
        smaller = ops.maximum(self._scale.value * 0.5, MINIMUM_SCALE)
        scale = ops.where(finite, ops.where(grow, self._scale.value * 2.0, self._scale.value), smaller)
        good = ops.where(applies, ops.where(grow, 0, good), self._good.value)
        self._scale.assign(ops.where(applies, scale, self._scale.value))
        self._good.assign(good)


# === Seeds ===


def updates_done(update: int) -> int:
    """Returns how many updates of the run come before an update; none before a warm-up, update 0."""
    return max(update - 1, 0)


def dropout_seed(run_seed: int, update: int, micro_batch: int, replica: int) -> np.ndarray:
    """Returns a (2,) int64 seed; each layer adds its own constant to the second number.

    All seeds are functions of the run's seed and an index, the same on every machine.
    """
    return _integers(f"dropout {run_seed} {update} {micro_batch} {replica}", 2)


def noise_seed(run_seed: int, weight: int) -> np.int64:
    """Returns half of the seed of the noise on a weight's gradient; the other half is the number of the update."""
    return _integers(f"noise {run_seed} {weight}", 1)[0]


def sampling_seed(run_seed: int, update: int) -> int:
    """Returns the seed of the outputs that are sampled in an update."""
    return int(_integers(f"sampling {run_seed} {update}", 1)[0])


def _integers(text: str, count: int) -> np.ndarray:
    found = np.frombuffer(hashlib.blake2b(text.encode(), digest_size=8 * count).digest(), dtype=np.uint64)
    return (found >> np.uint64(2)).astype(np.int64)  # room for a layer's number without overflow
