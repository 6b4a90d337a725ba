"""An update under a `tf.distribute.Strategy`, see `t2t.training.step`.

Legend: P numbers in all weights together, Q in all statistics together; a gradient is one vector until it is applied.
"""

import functools
from collections.abc import Callable, Sequence
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from t2t.models.base import SequenceModel
from t2t.specs.constants import TARGETS
from t2t.training.loss_scale import LossScale
from t2t.training.seeds import dropout_seed, noise_seed
from t2t.training.step import NOISE_FALL, Features, UpdateStats, UpdateStep, updates_done
from t2t.training.tensorflow.distribute import own_replicas
from t2t.training.tensorflow.local_gradient import LocalGradient
from t2t.training.tensorflow.weight_update import StatisticsUpdate, WeightUpdate


class TensorFlowStep(UpdateStep):
    """Computes and applies updates under a strategy.

    Args:
        model: built under the strategy's scope; of one problem or several.
        optimizer: made under the strategy's scope.
        strategy: a MirroredStrategy, or a MultiWorkerMirroredStrategy.
        scale_loss: whether to scale the loss dynamically (float16).
        reduction_dtype: type in which several replicas sum their gradients.
        rules: see the base class.
    """

    def __init__(
        self,
        model: SequenceModel,
        optimizer: keras.optimizers.Optimizer,
        strategy: tf.distribute.Strategy,
        *,
        scale_loss: bool = False,
        reduction_dtype: str = "float32",
        **rules: Any,
    ):
        super().__init__(model, optimizer, **rules)
        self.strategy, self.replicas, self.own = strategy, strategy.num_replicas_in_sync, own_replicas(strategy)
        self._reduction_dtype = reduction_dtype if self.replicas > 1 else "float32"
        self._weights = [variable.value for variable in self.trained]
        self._fixed = [variable.value for variable in model.non_trainable_variables]
        self._sizes = [weight.shape.num_elements() for weight in self._weights]
        self._gradient = LocalGradient(model, self.objective, scale_loss, self.xla, self.adapters)
        with strategy.scope():
            optimizer.build(self.trained)
            self.ema = [
                tf.Variable(w.read_value(), trainable=False, name=w.name.split(":")[0] + "_ema")
                for w in (self._weights if self._ema_decay else ())
            ]
            self.loss_scale = LossScale(scale_loss)
        self._update = WeightUpdate(optimizer, strategy, self._weights, self.ema, self._weight_decay, self._ema_decay)
        self._statistics = StatisticsUpdate(strategy, self._fixed)
        self._sums = MicroBatchSums(strategy, sum(self._sizes))
        self._compiled: dict[tuple[str, str], Any] = {}

    def compile(self, updates: Sequence[Sequence[Sequence[Features]]], problem: str = "") -> None:
        """Does nothing: TensorFlow compiles programs when it first runs them."""

    def _run(self, micro_batches, update: int, rate: float, problem: str, applies: bool, stops=False) -> UpdateStats:
        # Not Python numbers: TensorFlow keeps a tensor of each one for the life of the process.
        with np.errstate(over="ignore"):  # saving checks that the weights are finite
            rate = tf.constant(np.asarray(rate, np.float32))
        done = tf.constant(np.asarray(updates_done(update), np.int64))
        settings = (tf.constant(applies), done, rate, tf.constant(float(stops)))
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
        """Returns the traced function; one trace serves all batch sizes and lengths."""
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
                signature += [tf.TensorSpec([], kind) for kind in (tf.bool, tf.int64, tf.float32, tf.float32)]
            methods: dict[str, Callable[..., Any]] = {
                "whole": self._full_update, "accumulate": self._accumulate, "apply": self._apply_sums,
            }  # fmt: skip
            of_problem = functools.partial(methods[name], problem)
            self._compiled[name, problem] = tf.function(of_problem, input_signature=signature, autograph=False)
        return self._compiled[name, problem]

    def _full_update(self, problem: str, features, seeds, applies, done, rate, stops) -> UpdateStats:
        def replica():
            reduced = self._reduce(problem, applies, done, stops, *self._local_sums(problem, features, seeds))
            return self._apply(problem, applies, rate, *reduced)

        return self._finish(problem, applies, rate, *self.strategy.run(replica))

    def _accumulate(self, problem: str, features, seeds) -> None:
        def replica():
            for total, value in zip(
                self._sums.variables_of(problem), self._local_sums(problem, features, seeds), strict=True
            ):
                total.assign_add(value)

        self.strategy.run(replica)

    def _apply_sums(self, problem: str, applies, done, rate, stops) -> UpdateStats:
        def replica():
            sums = self._sums.variables_of(problem)
            reduced = self._reduce(problem, applies, done, stops, *(tf.identity(total) for total in sums))
            with tf.control_dependencies(tf.nest.flatten(reduced)):
                for total in sums:
                    total.assign(tf.zeros_like(total))
            return self._apply(problem, applies, rate, *reduced)

        return self._finish(problem, applies, rate, *self.strategy.run(replica))

    def _local_sums(self, problem: str, features, seeds):
        """On one replica: the gradient of its loss sum, times the loss scale, (P,), its counts, and changes.

        Counts are (3,) float32: the loss sum, the tokens, the tokens with padding. The changes of statistics, (Q,), are
        left out if there are no statistics.
        """
        number = self._replica()
        own = (self._variables_of(number), features[number], seeds[number])
        gradient_P, loss_sum, tokens, changes = self._gradient(problem, *own, self.loss_scale.value())
        padded = tf.cast(tf.size(features[number][TARGETS]), tf.float32)
        return gradient_P, tf.stack([loss_sum, tokens, padded]), *changes

    def _replica(self) -> int:
        """On one replica: its index in this process."""
        number = tf.distribute.get_replica_context().replica_id_in_sync_group
        return int(tf.get_static_value(tf.convert_to_tensor(number))) - self.own.start

    def _variables_of(self, replica: int) -> list[tf.Variable]:
        """Returns the variables of a replica of this process, the trained ones first."""
        local = self.strategy.experimental_local_results
        return [local(variable)[replica] for variable in (*self._weights, *self._fixed)]

    def _reduce(self, problem: str, applies, done, stops, gradient_P, counts, *changes):
        """On one replica: the gradient (P,) of all replicas' mean loss, with noise, clipped; changes; and figures.

        The changes are the mean changes of the statistics: a list of one (Q,) tensor, or empty. Gradient and changes
        are 0 if they will not be applied.
        """
        add_up = functools.partial(tf.distribute.get_replica_context().all_reduce, tf.distribute.ReduceOp.SUM)
        gradient_P = tf.cast(add_up(tf.cast(gradient_P, self._reduction_dtype)), tf.float32)
        loss_sum, tokens, padded, stops = tf.unstack(add_up(tf.concat([counts, [stops]], axis=0)))
        loss_scale = self.loss_scale.value()
        scale = 1.0 / (tf.maximum(tokens, 1.0) * loss_scale)
        if self._noise:
            gradient_P, scale = gradient_P * scale + self._noise_like(problem, done), 1.0
        norm = tf.linalg.global_norm([gradient_P]) * scale
        finite = tf.math.is_finite(norm) & tf.math.is_finite(loss_sum) & (tokens > 0)
        if self._clip:
            scale = scale * tf.minimum(self._clip / norm, 1.0)
        # One pass over the gradient: one factor for the mean, loss scale and clipping, and 0 if it is not applied.
        gradient_P = tf.math.multiply_no_nan(gradient_P, tf.where(finite & applies, scale, 0.0))
        means = [
            tf.math.multiply_no_nan(add_up(change_Q), tf.where(finite & applies, 1.0 / tf.maximum(tokens, 1.0), 0.0))
            for change_Q in changes
        ]
        return gradient_P, means, UpdateStats(loss_sum, tokens, norm, finite, padded, stops, loss_scale)

    def _noise_like(self, problem: str, done):
        """On one replica: normal noise for the gradient, (P,), a function of (run seed, update, weight).

        Its variance falls with the updates of the run, of which `done`, () int64, came before; see `NOISE_FALL`.
        """
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
        """Across replicas: applies and counts what the replicas do not do themselves."""
        stats = UpdateStats(*(self.strategy.experimental_local_results(x)[0] for x in stats))
        with self.strategy.scope():
            self._update.across(problem, gradients, stats.finite & applies, rate)
            self._statistics.across(self._gradient.statistics(problem), changes)
            self.loss_scale.update(stats.finite, applies)
        return stats


class MicroBatchSums:
    """Variables of each replica for the gradient (P,), three counts (3,) and statistics (Q,); zero between updates.

    Args:
        strategy: of the replicas.
        size: P.
    """

    def __init__(self, strategy: tf.distribute.Strategy, size: int):
        self._strategy, self._size = strategy, size
        self._shared: list[tf.Variable] = []
        self._statistics: dict[str, list[tf.Variable]] = {}

    def prepare(self, problem: str, statistics: int) -> None:
        """Creates the variables of a problem with Q `statistics`, unless they exist; none if Q is 0."""
        if not self._shared:
            self._shared = [self._zeros(self._size), self._zeros(3)]
        if problem not in self._statistics:
            self._statistics[problem] = [self._zeros(statistics)] if statistics else []

    def variables_of(self, problem: str) -> list[tf.Variable]:
        """Returns the variables of a problem for which `prepare` was called."""
        return self._shared + self._statistics[problem]

    def _zeros(self, size: int) -> tf.Variable:
        by_replica = {
            "synchronization": tf.VariableSynchronization.ON_READ, "aggregation": tf.VariableAggregation.SUM,
        }  # fmt: skip
        with self._strategy.scope():
            return tf.Variable(tf.zeros([size]), trainable=False, **by_replica)
