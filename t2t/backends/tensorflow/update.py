"""An update under a `tf.distribute.Strategy`, see `t2t.backends.update`.

Legend: P numbers in all weights together, Q in all statistics together. A gradient is one vector where it is added up,
over replicas or micro-batches; otherwise it stays in parts, a tensor for each weight, which saves two passes over it.
"""

import functools
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from t2t.backends.tensorflow.devices import StrategyDevices
from t2t.backends.tensorflow.functions import ReplicaFunction
from t2t.backends.tensorflow.weights import Gradient, WeightUpdate
from t2t.backends.update import (
    Features,
    LossFunction,
    LossScale,
    Update,
    UpdateRules,
    UpdateStats,
    dropout_seed,
    noise_seed,
    updates_done,
)
from t2t.specs import TARGETS

Tensors = dict[str, tf.Tensor]


class TensorFlowUpdate(Update):
    """Computes and applies updates under a strategy.

    Args:
        loss: of a model that was built under the strategy's scope.
        optimizer: made under the strategy's scope.
        devices: with a MirroredStrategy, or a MultiWorkerMirroredStrategy.
        rules: how to compute updates.
    """

    def __init__(
        self,
        loss: LossFunction,
        optimizer: keras.optimizers.Optimizer,
        devices: StrategyDevices,
        rules: UpdateRules,
    ):
        self._strategy, self._own, self._rules = devices.strategy, devices.own, rules
        self._are_several = devices.replicas > 1
        values = [variable.value for variable in loss.variables]
        self._weights, self._fixed = values[: len(loss.trained)], values[len(loss.trained) :]
        self._sizes = [weight.shape.num_elements() for weight in self._weights]
        self._gradient = LocalGradient(loss, rules.scale_loss, rules.xla)
        with self._strategy.scope():
            optimizer.build(loss.trained)
            self.ema = [
                tf.Variable(w.read_value(), trainable=False, name=w.name.split(":")[0] + "_ema")
                for w in (self._weights if rules.ema_decay else ())
            ]
            self.loss_scale = LossScale(rules.scale_loss)
        self._update = WeightUpdate(optimizer, self._strategy, self._weights, self.ema, rules)
        self._sums: dict[str, list[tf.Variable]] = {}
        """By problem, sums over micro-batches on each replica, see `_local_sums`; zero between updates."""
        self._compiled: dict[tuple[str, str], Any] = {}

    def compile(self, updates: Iterable[Sequence[Sequence[Features]]], problem: str) -> None:
        """Does nothing: TensorFlow compiles programs when it first runs them."""

    def __call__(
        self,
        micro_batches: Sequence[Sequence[Features]],
        update: int,
        rate: float,
        problem: str,
        applies: bool,
        stops: bool = False,
    ) -> UpdateStats:
        """See the base class."""
        # Not Python numbers: TensorFlow keeps a tensor of each one for the life of the process.
        with np.errstate(over="ignore"):  # saving checks that the weights are finite
            rate_now = tf.constant(np.asarray(rate, np.float32))
        done = tf.constant(np.asarray(updates_done(update), np.int64))
        settings = (tf.constant(applies), done, rate_now, tf.constant(float(stops)))
        if len(micro_batches) == 1:
            features, seeds = self._inputs(micro_batches[0], update, 0)
            return self._function("whole", problem, features)(features, seeds, *settings)
        for index, batches in enumerate(micro_batches):
            features, seeds = self._inputs(batches, update, index)
            accumulate = self._function("accumulate", problem, features)
            self._create_sums(problem)
            accumulate(features, seeds)
        return self._function("apply", problem)(*settings)

    def _create_sums(self, problem: str) -> None:
        """Creates the sums of a problem unless they exist; all problems share those of the gradient and the counts."""
        if problem in self._sums:
            return
        shared = next(iter(self._sums.values()), [])[:2]
        changes = sum(self._fixed[number].shape.num_elements() for number in self._gradient.statistics(problem))
        sizes = ([] if shared else [sum(self._sizes), 3]) + ([changes] if changes else [])
        by_replica = {
            "synchronization": tf.VariableSynchronization.ON_READ, "aggregation": tf.VariableAggregation.SUM,
        }  # fmt: skip
        with self._strategy.scope():
            self._sums[problem] = shared + [tf.Variable(tf.zeros([n]), trainable=False, **by_replica) for n in sizes]

    def _inputs(self, batches: Sequence[Features], update: int, micro_batch: int):
        seeds = [tf.constant(dropout_seed(self._rules.run_seed, update, micro_batch, r)) for r in self._own]
        return [{name: tf.constant(array) for name, array in batch.items()} for batch in batches], seeds

    def _function(self, name: str, problem: str, features: list[dict[str, tf.Tensor]] | None = None):
        """Returns the traced function; one trace serves all batch sizes and lengths."""
        if (name, problem) not in self._compiled:
            signature: list[Any] = []
            if features is not None:
                joined = self._are_several or name == "accumulate"
                self._gradient.trace(problem, self._variables_of(0), features[0], joined)
                self._update.trace(problem, self._gradient.reached(problem), joined)
                signature += [
                    [{k: tf.TensorSpec([None] * t.ndim, t.dtype) for k, t in one.items()} for one in features],
                    [tf.TensorSpec([2], tf.int64)] * len(self._own),
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
            sums = self._local_sums(problem, features, seeds, joined=self._are_several)
            reduced = self._reduce(problem, applies, done, stops, *sums)
            return self._apply(problem, applies, rate, *reduced)

        return self._finish(problem, applies, rate, *self._strategy.run(replica))

    def _accumulate(self, problem: str, features, seeds) -> None:
        def replica():
            values = self._local_sums(problem, features, seeds, joined=True)
            for total, value in zip(self._sums[problem], values, strict=True):
                total.assign_add(value)

        self._strategy.run(replica)

    def _apply_sums(self, problem: str, applies, done, rate, stops) -> UpdateStats:
        def replica():
            sums = self._sums[problem]
            reduced = self._reduce(problem, applies, done, stops, *(tf.identity(total) for total in sums))
            with tf.control_dependencies(tf.nest.flatten(reduced)):
                for total in sums:
                    total.assign(tf.zeros_like(total))
            return self._apply(problem, applies, rate, *reduced)

        return self._finish(problem, applies, rate, *self._strategy.run(replica))

    def _local_sums(self, problem: str, features, seeds, joined: bool):
        """On one replica: the gradient of its loss sum, times the loss scale; its counts, and changes.

        Counts are (3,) float32: the loss sum, the tokens, the tokens with padding. The changes of statistics, (Q,), are
        left out if there are no statistics.
        """
        number = self._replica()
        own = (self._variables_of(number), features[number], seeds[number])
        gradient, loss_sum, tokens, changes = self._gradient(problem, *own, self.loss_scale.value(), joined)
        padded = tf.cast(tf.size(features[number][TARGETS]), tf.float32)
        return gradient, tf.stack([loss_sum, tokens, padded]), *changes

    def _replica(self) -> int:
        """On one replica: its index in this process."""
        number = tf.distribute.get_replica_context().replica_id_in_sync_group
        return int(tf.get_static_value(tf.convert_to_tensor(number))) - self._own.start

    def _variables_of(self, replica: int) -> list[tf.Variable]:
        """Returns the variables of a replica of this process, the trained ones first."""
        local = self._strategy.experimental_local_results
        return [local(variable)[replica] for variable in (*self._weights, *self._fixed)]

    def _reduce(self, problem: str, applies, done, stops, gradient: Gradient, counts, *changes):
        """On one replica: the gradient of all replicas' mean loss, with noise, clipped; changes; and figures.

        The changes are the mean changes of the statistics: a list of one (Q,) tensor, or empty. Gradient and changes
        are 0 if they will not be applied.
        """
        add_up = functools.partial(tf.distribute.get_replica_context().all_reduce, tf.distribute.ReduceOp.SUM)
        if self._are_several:
            gradient = tf.cast(add_up(tf.cast(gradient, self._rules.reduction_dtype)), tf.float32)
        parts = gradient if isinstance(gradient, list) else [gradient]
        loss_sum, tokens, padded, stops = tf.unstack(add_up(tf.concat([counts, [stops]], axis=0)))
        loss_scale = self.loss_scale.value()
        scale = 1.0 / (tf.maximum(tokens, 1.0) * loss_scale)
        if self._rules.gradient_noise:
            noise = self._noise(problem, done)
            noise = noise if isinstance(gradient, list) else [self._gradient.join(problem, noise)]
            parts, scale = [part * scale + more for part, more in zip(parts, noise, strict=True)], 1.0
        norm = tf.linalg.global_norm(parts) * scale
        finite = tf.math.is_finite(norm) & tf.math.is_finite(loss_sum) & (tokens > 0)
        if self._rules.clip_grad_norm:
            scale = scale * tf.minimum(self._rules.clip_grad_norm / norm, 1.0)
        # One pass over the gradient: one factor for the mean, loss scale and clipping, and 0 if it is not applied.
        factor = tf.where(finite & applies, scale, 0.0)
        parts = [tf.math.multiply_no_nan(part, factor) for part in parts]
        gradient = parts if isinstance(gradient, list) else parts[0]
        means = [
            tf.math.multiply_no_nan(add_up(change_Q), tf.where(finite & applies, 1.0 / tf.maximum(tokens, 1.0), 0.0))
            for change_Q in changes
        ]
        return gradient, means, UpdateStats(loss_sum, tokens, norm, finite, padded, stops, loss_scale)

    def _noise(self, problem: str, done) -> list[tf.Tensor]:
        """On one replica: normal noise for the parts of a gradient, a function of (run seed, update, weight).

        Its variance falls with the updates of the run, of which `done`, () int64, came before; see `NOISE_FALL`.
        """
        deviation = self._rules.noise_deviation(done)
        seeds = {index: noise_seed(self._rules.run_seed, index) for index in self._gradient.reached(problem)}
        noise = [
            deviation * tf.random.stateless_normal(self._weights[index].shape, tf.stack([seed, done]))
            for index, seed in seeds.items()
        ]
        return noise

    def _apply(self, problem: str, applies, rate, gradient: Gradient, changes, stats: UpdateStats):
        """On one replica: applies the gradient where it is finite and this is not a warm-up; see `WeightUpdate`.

        Returns what remains to do across replicas, with the changes of statistics as one tensor for each.
        """
        shapes = [self._fixed[number].shape for number in self._gradient.statistics(problem)]
        pieces = [piece for change_Q in changes for piece in tf.split(change_Q, [s.num_elements() for s in shapes])]
        changes = [tf.reshape(piece, shape) for piece, shape in zip(pieces, shapes, strict=True)]
        applied = stats.finite & applies
        return self._update.on_replica(problem, self._replica(), gradient, applied, rate), changes, stats

    def _finish(self, problem: str, applies, rate, gradients, changes, stats: UpdateStats) -> UpdateStats:
        """Across replicas: applies and counts what the replicas do not do themselves."""
        stats = UpdateStats(*(self._strategy.experimental_local_results(x)[0] for x in stats))
        with self._strategy.scope():
            self._update.across(problem, gradients, stats.finite & applies, rate)
            for number, change in zip(self._gradient.statistics(problem), changes, strict=True):
                update = self._strategy.extended.update
                update(self._fixed[number], lambda v, added: v.assign_add(added), args=(change,), group=False)
            self.loss_scale.update(stats.finite, applies)
        return stats


class LocalGradient:
    """Sums of losses, their gradients and changes of statistics, which each replica computes with its own weights.

    Args:
        loss: of a model that was created within the scope of a strategy or without.
        scales_loss: whether the loss is scaled, so that float16 gradients neither overflow nor vanish.
        xla: whether XLA compiles it, one program for each shape of batches; nothing in it waits for the host.
    """

    def __init__(self, loss: LossFunction, scales_loss: bool = False, xla: bool = False):
        self._loss, self._trained = loss, len(loss.trained)
        self._scales_loss, self._xla = scales_loss, xla
        self._functions: dict[tuple[str, bool], ReplicaFunction] = {}
        self._reached: dict[str, list[int]] = {}
        self._assigned: dict[str, list[int]] = {}

    def trace(self, problem: str, variables: Sequence[tf.Variable], features: Tensors, joined: bool = True) -> None:
        """Traces the function of a problem ("" if the model has one); `features` determine only ranks and dtypes."""
        if (problem, joined) in self._functions:
            return

        def local_gradient(*arguments):  # XLA names its programs after the function
            return self._compute(problem, joined, *arguments)

        of_any_size = {
            name: tf.TensorSpec([None] * tensor.shape.rank, tensor.dtype) for name, tensor in features.items()
        }
        arguments: tuple[Any, ...] = (list(variables), of_any_size, tf.TensorSpec([2], tf.int64))
        if self._scales_loss:  # else it would be a constant, for which TensorFlow copies the function at each call
            arguments += (tf.TensorSpec([], tf.float32),)
        self._functions[problem, joined] = ReplicaFunction(local_gradient, arguments, self._xla)

    def reached(self, problem: str) -> list[int]:
        """Returns the indices of the trained variables that a problem's loss depends on."""
        return self._reached[problem]

    def statistics(self, problem: str) -> list[int]:
        """Returns the indices, among the untrained variables, of those that a problem's forward pass assigns."""
        return self._assigned[problem]

    def __call__(
        self, problem: str, variables: Sequence[tf.Variable], features: Tensors, seed, scale, joined: bool = True
    ):
        """Returns the gradient of `scale` times the objective, the loss sum, the tokens, and changes.

        The changes are what the forward pass adds to the statistics, times the tokens: a list of one (Q,) float32
        tensor, or an empty list without statistics.

        Args:
            problem: of the batch; must have been traced.
            variables: of this replica, the trained ones first.
            features: the batch.
            seed: (2,) int64, of the dropout masks.
            scale: () float32.
            joined: whether the gradient is one vector, (P,), or a list of its parts, as it must have been traced.
        """
        scales = [scale] if self._scales_loss else []
        return self._functions[problem, joined](list(variables), features, seed, *scales)

    def _compute(self, problem: str, joined: bool, variables, features, seed, scale=1.0):
        values = [variable.read_value() for variable in variables]
        # In float16 a sum over thousands of tokens would overflow at any useful scale; their mean does not.
        padded = tf.cast(tf.size(features["targets"]), tf.float32) if self._scales_loss else tf.constant(1.0)
        trained = values[: self._trained]
        with tf.GradientTape() as tape:
            tape.watch(trained)
            found = self._loss(problem, values, features, seed)
            scaled = found.loss.minimized * (scale / padded)
        gradients = tape.gradient(scaled, trained)
        self._reached[problem] = [number for number, gradient in enumerate(gradients) if gradient is not None]
        self._assigned[problem] = [number - self._trained for number in found.statistics]
        parts = [tf.convert_to_tensor(gradient) for gradient in gradients if gradient is not None]
        if self._scales_loss:
            parts = [part * padded for part in parts]
        changes = [tf.reshape(after - before, [-1]) for before, after in found.statistics.values()]
        changes = [tf.concat(changes, axis=0) * found.loss.tokens] if changes else []
        gradient = self.join(problem, parts) if joined else parts
        return gradient, found.loss.loss_sum, found.loss.tokens, changes

    def join(self, problem: str, parts: Sequence[tf.Tensor]) -> tf.Tensor:
        """Returns the parts of a gradient, or others of their shapes, as one vector of all weights, (P,)."""
        by_number = dict(zip(self._reached[problem], parts, strict=True))
        flat = [
            tf.reshape(by_number[number], [-1]) if number in by_number else tf.zeros([weight.shape.num_elements()])
            for number, weight in enumerate(self._loss.trained)
        ]
        return tf.concat(flat, axis=0)
