"""What one update is.

    update = sum of token losses over all replicas and micro-batches / their global token count;
    then the gradients are reduced, clipped by global norm, and applied.

`keras.Model.fit` clips before it reduces and averages per-replica means; both are wrong for token batches, so the step
is written out here. An update whose gradient is not finite changes nothing and is remembered by number.

Of a model of several problems each update is of one of them. Weights that its loss does not reach, the modalities
of the others, stay as they are, and so do their slots and moving averages: nothing decays because of another problem.
What a rule derives from the number of updates, e.g. Adam's correction of its first ones, counts all of them.

Statistics, such as the moving means of batch norms, change once an update, by the mean of the changes that each replica
and micro-batch computes, weighted by their tokens.

Legend: P numbers in all weights together, Q in all statistics together; a gradient is one vector until it is applied.
"""

import functools
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import keras
import numpy as np
import tensorflow as tf

from t2t.layers.adapters import Adapters
from t2t.models.base import SequenceModel
from t2t.specs.constants import TARGETS
from t2t.training.local_gradient import LocalGradient
from t2t.training.loss_scale import LossScale
from t2t.training.micro_batch_sums import MicroBatchSums
from t2t.training.objectives import Likelihood
from t2t.training.seeds import dropout_seed, noise_seed
from t2t.training.statistics import StatisticsUpdate
from t2t.training.weight_update import WeightUpdate

Features = dict[str, np.ndarray]

NOISE_FALL = 0.55
"""The variance of gradient noise falls with update^0.55 (Neelakantan et al. 2015, arXiv:1511.06807, section 3).

About the root, as in Kaiser and Sutskever (2016, "gradient noise"), whose program has this exponent.
"""


class UpdateStats(NamedTuple):
    """What an update did, as tensors on the device: reading them waits for it."""

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
    """() float32: above 0 where a worker asks all to stop."""


class UpdateStep:
    """Computes and applies updates under a strategy.

    Args:
        model: built under the strategy's scope; of one problem or several.
        optimizer: made under the strategy's scope.
        strategy: a MirroredStrategy, or a MultiWorkerMirroredStrategy.
        run_seed: seed of the dropout masks.
        clip_grad_norm: largest global norm; 0 = none.
        weight_decay: decoupled decay of weights of two or more dimensions.
        gradient_noise: deviation of the noise on the first gradient, see `NOISE_FALL`.
        ema_decay: decay of the moving average of the weights; 0 = none.
        scale_loss: whether to scale the loss dynamically (float16).
        reduction_dtype: in which several replicas add up their gradients.
        xla: whether XLA compiles the gradient of a batch, see `LocalGradient`.
        objective: what is minimized; None for the likelihood of targets.
        adapters: what is trained in place of the weights of the model, made under its scope; None for these.
    """

    def __init__(
        self,
        model: SequenceModel,
        optimizer: keras.optimizers.Optimizer,
        strategy: tf.distribute.Strategy,
        *,
        run_seed: int = 0,
        clip_grad_norm: float = 0.0,
        weight_decay: float = 0.0,
        gradient_noise: float = 0.0,
        ema_decay: float = 0.0,
        scale_loss: bool = False,
        reduction_dtype: str = "float32",
        xla: bool = False,
        objective: Likelihood | None = None,
        adapters: Adapters | None = None,
    ):
        self.model, self.optimizer, self.strategy, self.adapters = model, optimizer, strategy, adapters
        self.objective = objective or Likelihood()
        self._run_seed, self._clip, self._noise = run_seed, clip_grad_norm, gradient_noise
        self._reduction_dtype = reduction_dtype if self.replicas > 1 else "float32"
        self._weights = [variable.value for variable in self.trained]
        self._fixed = [variable.value for variable in model.non_trainable_variables]
        self._sizes = [weight.shape.num_elements() for weight in self._weights]
        self.updates_before = 0
        """Updates that the optimizer had done before the run's first, where it begins with another run's state."""
        self.xla = xla
        self._gradient = LocalGradient(model, self.objective, scale_loss, xla, adapters)
        with strategy.scope():
            optimizer.build(self.trained)
            self.ema = [
                tf.Variable(w.read_value(), trainable=False, name=w.name.split(":")[0] + "_ema")
                for w in (self._weights if ema_decay else ())
            ]
            self.loss_scale = LossScale(scale_loss)
        self._update = WeightUpdate(optimizer, strategy, self._weights, self.ema, weight_decay, ema_decay)
        self._statistics = StatisticsUpdate(strategy, self._fixed)
        self._sums = MicroBatchSums(strategy, sum(self._sizes))
        self._compiled: dict[tuple[str, str], Any] = {}

    @property
    def trained(self) -> list[keras.Variable]:
        """Variables that updates change by a gradient."""
        return self.model.trainable_variables if self.adapters is None else self.adapters.variables

    @property
    def saved(self) -> list[keras.Variable]:
        """Variables that a checkpoint holds: those of the model, or of its adapters alone."""
        return self.model.variables if self.adapters is None else self.adapters.variables

    @property
    def replicas(self) -> int:
        """Number of replicas, of all workers."""
        return self.strategy.num_replicas_in_sync

    @functools.cached_property
    def own(self) -> range:
        """Numbers of the replicas in this process."""
        count = len(self.strategy.extended.worker_devices)
        resolver = self.strategy.cluster_resolver
        first = count * resolver.task_id if resolver is not None and self.replicas > count else 0
        return range(first, first + count)

    def __call__(
        self,
        micro_batches: Sequence[Sequence[Features]],
        update: int,
        rate: float,
        problem: str = "",
        stops: bool = False,
    ) -> UpdateStats:
        """Computes and applies update number `update` (the first is 1), from which the dropout masks derive.

        Each micro-batch has one dict of features for each replica of this process; `problem` is theirs, for a model of
        several. `stops` asks all workers to stop.
        """
        return self._run(micro_batches, update, rate, problem, applies=True, stops=stops)

    def skipped(self, update: int) -> int:
        """Returns how many of the first `update` updates were not applied, before a resumption too."""
        return update - int(self.optimizer.iterations.numpy()) + self.updates_before

    def warm_up(self, micro_batches: Sequence[Sequence[Features]], problem: str = "") -> None:
        """Runs an update and does not apply it: no state changes, but it is traced and its memory has been had."""
        self._run(micro_batches, 0, 0.0, problem, applies=False)

    def _run(self, micro_batches, update: int, rate: float, problem: str, applies: bool, stops=False) -> UpdateStats:
        with np.errstate(over="ignore"):  # what it does to the weights is found where they are saved
            # No Python number: TensorFlow keeps a tensor of each that it has met, for the life of the process.
            rate = tf.constant(np.asarray(rate, np.float32))
        settings = (tf.constant(applies), rate, tf.constant(float(stops)))
        if len(micro_batches) == 1:
            features, seeds = self._inputs(micro_batches[0], update, 0, problem)
            return self._function("whole", problem, features)(features, seeds, *settings)
        for index, batches in enumerate(micro_batches):
            features, seeds = self._inputs(batches, update, index, problem)
            accumulate = self._function("accumulate", problem, features)
            self._sums.prepare(problem, self._statistics.size(self._gradient.statistics(problem)))
            accumulate(features, seeds)
        return self._function("apply", problem)(*settings)

    def _inputs(self, batches: Sequence[Features], update: int, micro_batch: int, problem: str):
        batches = self.objective.prepare(batches, update, problem)
        seeds = [tf.constant(dropout_seed(self._run_seed, update, micro_batch, r)) for r in self.own]
        return [{name: tf.constant(array) for name, array in batch.items()} for batch in batches], seeds

    def _function(self, name: str, problem: str, features: list[dict[str, tf.Tensor]] | None = None):
        """Returns the traced function; any batch size and length goes through one trace."""
        if (name, problem) not in self._compiled:
            signature: list[Any] = []
            if features is not None:
                self._gradient.trace(problem, self._variables_of(0), features[0])
                self._update.trace(problem, self._gradient.reached(problem))
                signature += [
                    [{k: tf.TensorSpec([None] * t.ndim, t.dtype) for k, t in one.items()} for one in features],
                    [tf.TensorSpec([2], tf.int64)] * len(self.own),
                ]
            if name != "accumulate":
                signature += [tf.TensorSpec([], tf.bool), *[tf.TensorSpec([], tf.float32)] * 2]
            methods: dict[str, Callable[..., Any]] = {
                "whole": self._full_update, "accumulate": self._accumulate, "apply": self._apply_sums,
            }  # fmt: skip
            of_problem = functools.partial(methods[name], problem)
            self._compiled[name, problem] = tf.function(of_problem, input_signature=signature, autograph=False)
        return self._compiled[name, problem]

    def _full_update(self, problem: str, features, seeds, applies, rate, stops) -> UpdateStats:
        def replica():
            reduced = self._reduce(problem, applies, stops, *self._local_sums(problem, features, seeds))
            return self._apply(problem, applies, rate, *reduced)

        return self._finish(problem, applies, rate, *self.strategy.run(replica))

    def _accumulate(self, problem: str, features, seeds) -> None:
        def replica():
            for total, value in zip(
                self._sums.variables_of(problem), self._local_sums(problem, features, seeds), strict=True
            ):
                total.assign_add(value)

        self.strategy.run(replica)

    def _apply_sums(self, problem: str, applies, rate, stops) -> UpdateStats:
        def replica():
            sums = self._sums.variables_of(problem)
            reduced = self._reduce(problem, applies, stops, *(tf.identity(total) for total in sums))
            with tf.control_dependencies(tf.nest.flatten(reduced)):
                for total in sums:
                    total.assign(tf.zeros_like(total))
            return self._apply(problem, applies, rate, *reduced)

        return self._finish(problem, applies, rate, *self.strategy.run(replica))

    def _local_sums(self, problem: str, features, seeds):
        """On one replica: the gradient of its loss sum, times the loss scale, (P,), its counts, and changes.

        Counts are (3,) float32: the loss sum, the tokens, the tokens with padding. The changes of statistics, (Q,), are
        missing where there are none.
        """
        number = self._replica()
        own = (self._variables_of(number), features[number], seeds[number])
        gradient_P, loss_sum, tokens, changes = self._gradient(problem, *own, self.loss_scale.value())
        padded = tf.cast(tf.size(features[number][TARGETS]), tf.float32)
        return gradient_P, tf.stack([loss_sum, tokens, padded]), *changes

    def _replica(self) -> int:
        """On one replica: its number in this process."""
        number = tf.distribute.get_replica_context().replica_id_in_sync_group
        return int(tf.get_static_value(tf.convert_to_tensor(number))) - self.own.start

    def _variables_of(self, replica: int) -> list[tf.Variable]:
        """Returns the variables of a replica of this process, those that are trained first."""
        local = self.strategy.experimental_local_results
        return [local(variable)[replica] for variable in (*self._weights, *self._fixed)]

    def _reduce(self, problem: str, applies, stops, gradient_P, counts, *changes):
        """On one replica: the gradient of all replicas' mean loss, clipped, with noise, (P,), and what it is of.

        Between them a list of the mean change of statistics, (Q,), or of nothing. They are 0 where they will not be
        applied.
        """
        add_up = functools.partial(tf.distribute.get_replica_context().all_reduce, tf.distribute.ReduceOp.SUM)
        gradient_P = tf.cast(add_up(tf.cast(gradient_P, self._reduction_dtype)), tf.float32)
        loss_sum, tokens, padded, stops = tf.unstack(add_up(tf.concat([counts, [stops]], axis=0)))
        scale = 1.0 / (tf.maximum(tokens, 1.0) * self.loss_scale.value())
        if self._noise:
            gradient_P, scale = gradient_P * scale + self._noise_like(problem), 1.0
        norm = tf.linalg.global_norm([gradient_P]) * scale
        finite = tf.math.is_finite(norm) & tf.math.is_finite(loss_sum) & (tokens > 0)
        if self._clip:
            scale = scale * tf.minimum(self._clip / norm, 1.0)
        # One factor for the mean, the loss scale, the clipping and for what is not applied: one pass over the gradient.
        gradient_P = tf.math.multiply_no_nan(gradient_P, tf.where(finite & applies, scale, 0.0))
        means = [
            tf.math.multiply_no_nan(add_up(change_Q), tf.where(finite & applies, 1.0 / tf.maximum(tokens, 1.0), 0.0))
            for change_Q in changes
        ]
        return gradient_P, means, UpdateStats(loss_sum, tokens, norm, finite, padded, stops)

    def _noise_like(self, problem: str):
        """On one replica: normal noise for the gradient, (P,), a function of (run seed, update, weight).

        Its variance falls with the update's number, see `NOISE_FALL`.
        """
        done = tf.cast(self.optimizer.iterations.value, tf.int64)
        deviation = self._noise * tf.cast(done + 1, tf.float32) ** (-NOISE_FALL / 2)
        reached = set(self._gradient.reached(problem))
        noise = [
            tf.random.stateless_normal([size], tf.stack([noise_seed(self._run_seed, index), done]))
            if index in reached
            else tf.zeros([size])
            for index, size in enumerate(self._sizes)
        ]
        return deviation * tf.concat(noise, axis=0)

    def _apply(self, problem: str, applies, rate, gradient_P, changes, stats: UpdateStats):
        """On one replica: applies the gradient where it is finite and this is not a warm-up; see `WeightUpdate`."""
        applied = stats.finite & applies
        changes = self._statistics.cut(self._gradient.statistics(problem), *changes)
        return self._update.on_replica(problem, self._replica(), gradient_P, applied, rate), changes, stats

    def _finish(self, problem: str, applies, rate, gradients, changes, stats: UpdateStats) -> UpdateStats:
        """Across replicas: applies and counts what replicas do not by themselves."""
        stats = UpdateStats(*(self.strategy.experimental_local_results(x)[0] for x in stats))
        with self.strategy.scope():
            self._update.across(problem, gradients, stats.finite & applies, rate)
            self._statistics.across(self._gradient.statistics(problem), changes)
            self.loss_scale.update(stats.finite, applies)
        return stats
