"""What one update is.

    update = sum of token losses over all replicas and micro-batches / their global token count;
    then the gradients are reduced, clipped by global norm, and applied.

`keras.Model.fit` clips before it reduces and averages per-replica means; both are wrong for token batches, so the step
is written out here. An update whose gradient is not finite changes nothing and is remembered by number.

Of a model of several problems each update is of one of them. Weights that its loss does not reach, the ends of the
others, stay as they are, and so do their slots and moving averages: nothing decays because of another problem. What a
rule derives from the number of updates, e.g. Adam's correction of its first ones, counts all of them.
"""

import functools
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import keras
import numpy as np
import tensorflow as tf

from t2t.models.base import SequenceModel
from t2t.training.loss_scale import LossScale
from t2t.training.seeds import dropout_seed, noise_seed

Features = dict[str, np.ndarray]

NOISE_FALL = 0.55
"""The variance of gradient noise falls with update^0.55 (Neelakantan et al. 2015, arXiv:1511.06807, section 3).

About the root, as Kaiser and Sutskever (2016, "gradient noise") say of theirs, whose program has this exponent.
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


class UpdateStep:
    """Computes and applies updates under a strategy.

    Args:
        model: built under the strategy's scope; of one problem or several.
        optimizer: made under the strategy's scope.
        strategy: a MirroredStrategy.
        run_seed: seed of the dropout masks.
        clip_grad_norm: largest global norm; 0 = none.
        weight_decay: decoupled decay of weights of two or more dimensions.
        gradient_noise: deviation of the noise on the first gradient, see `NOISE_FALL`.
        ema_decay: decay of the moving average of the weights; 0 = none.
        scale_loss: whether to scale the loss dynamically (float16).
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
    ):
        self.model, self.optimizer, self.strategy = model, optimizer, strategy
        self._run_seed, self._clip, self._noise = run_seed, clip_grad_norm, gradient_noise
        self._weight_decay, self._ema_decay = weight_decay, ema_decay
        self._weights = [variable.value for variable in model.trainable_variables]
        self.updates_before = 0
        """Updates that the optimizer had done before the run's first, where it goes on from another run's state."""
        self._reached: dict[str, list[int]] = {}
        """Of each problem, the numbers of the weights that its loss depends on; known once it is traced."""
        with strategy.scope():
            optimizer.build(model.trainable_variables)
            self.ema = [
                tf.Variable(w.read_value(), trainable=False, name=w.name.split(":")[0] + "_ema")
                for w in (self._weights if ema_decay else ())
            ]
            self.loss_scale = LossScale(scale_loss)
        self._sums: list[tf.Variable] = []
        self._compiled: dict[tuple[str, str], Any] = {}

    @property
    def replicas(self) -> int:
        """Number of replicas."""
        return self.strategy.num_replicas_in_sync

    def __call__(
        self, micro_batches: Sequence[Sequence[Features]], update: int, rate: float, problem: str = ""
    ) -> UpdateStats:
        """Computes and applies update number `update` (the first is 1), from which the dropout masks derive.

        Each micro-batch has one dict of features for each replica; `problem` is theirs, for a model of several.
        """
        return self._run(micro_batches, update, rate, problem, applies=True)

    def skipped(self, update: int) -> int:
        """Returns how many of the first `update` updates were not applied, before a resumption too."""
        return update - int(self.optimizer.iterations.numpy()) + self.updates_before

    def warm_up(self, micro_batches: Sequence[Sequence[Features]], problem: str = "") -> None:
        """Runs an update and does not apply it: no state changes, but it is traced and its memory has been had."""
        self._run(micro_batches, 0, 0.0, problem, applies=False)

    def _run(self, micro_batches, update: int, rate: float, problem: str, applies: bool) -> UpdateStats:
        with np.errstate(over="ignore"):  # what it does to the weights is found where they are saved
            # No Python number: TensorFlow keeps a tensor of each that it has met, for the life of the process.
            self.optimizer.learning_rate = np.asarray(rate, np.float32)
        applies = tf.constant(applies)
        if len(micro_batches) == 1:
            features, seeds = self._inputs(micro_batches[0], update, 0)
            return self._function("whole", problem, features)(applies, features, seeds)
        self._ensure_sums()
        for index, batches in enumerate(micro_batches):
            features, seeds = self._inputs(batches, update, index)
            self._function("accumulate", problem, features)(features, seeds)
        return self._function("apply", problem)(applies)

    def _inputs(self, batches: Sequence[Features], update: int, micro_batch: int):
        seeds = [tf.constant(dropout_seed(self._run_seed, update, micro_batch, r)) for r in range(self.replicas)]
        return [{name: tf.constant(array) for name, array in batch.items()} for batch in batches], seeds

    def _function(self, name: str, problem: str, features: list[dict[str, tf.Tensor]] | None = None):
        """Returns the traced function; any batch size and length goes through one trace."""
        if (name, problem) not in self._compiled:
            signature = [] if name == "accumulate" else [tf.TensorSpec([], tf.bool)]
            if features is not None:
                signature += [
                    [{k: tf.TensorSpec([None] * t.ndim, t.dtype) for k, t in one.items()} for one in features],
                    [tf.TensorSpec([2], tf.int64)] * self.replicas,
                ]
            methods: dict[str, Callable[..., Any]] = {
                "whole": self._full_update, "accumulate": self._accumulate, "apply": self._apply_sums,
            }  # fmt: skip
            of_problem = functools.partial(methods[name], problem)
            self._compiled[name, problem] = tf.function(of_problem, input_signature=signature, autograph=False)
        return self._compiled[name, problem]

    def _full_update(self, problem: str, applies, features, seeds) -> UpdateStats:
        def replica():
            gradients, loss_sum, tokens = self._gradients(problem, features, seeds, divisor=_global_tokens)
            return self._reduce(problem, gradients, loss_sum, tokens, 1.0)

        return self._apply(problem, applies, *self.strategy.run(replica))

    def _accumulate(self, problem: str, features, seeds) -> None:
        def replica():
            # A sum over thousands of tokens would overflow float16 at any useful scale; their mean does not.
            padded = tf.cast(tf.size(_local_value(features)["targets"]), tf.float32) if self.loss_scale.dynamic else 1.0
            gradients, loss_sum, tokens = self._gradients(problem, features, seeds, divisor=lambda _: padded)
            sums = [g * padded for g in gradients] if self.loss_scale.dynamic else gradients
            for total, value in zip(self._sums_of(problem), [*sums, loss_sum, tokens], strict=True):
                total.assign_add(value)

        self.strategy.run(replica)

    def _apply_sums(self, problem: str, applies) -> UpdateStats:
        sums = self._sums_of(problem)

        def replica():
            *gradients, loss_sum, tokens = [tf.identity(total) for total in sums]
            reduced = self._reduce(problem, gradients, loss_sum, tokens, _global_tokens(tokens))
            with tf.control_dependencies(tf.nest.flatten(reduced)):
                for total in sums:
                    total.assign(tf.zeros_like(total))
            return reduced

        return self._apply(problem, applies, *self.strategy.run(replica))

    def _sums_of(self, problem: str) -> list[tf.Variable]:
        """Returns the sums of the gradients that a problem has, of its loss and of its tokens."""
        return [*(self._sums[index] for index in self._reached[problem]), *self._sums[-2:]]

    def _gradients(self, problem: str, features, seeds, divisor):
        """On one replica: the gradient of loss sum * loss scale / divisor(tokens), the loss sum, and the tokens.

        The gradient has the weights that the loss reaches, whose numbers are kept.
        """
        batch, seed = _local_value(features), _local_value(seeds)
        model = self.model.for_problem(problem) if problem else self.model
        with tf.GradientTape() as tape:
            loss_sum, tokens = model.loss_sum(model.body(batch, seed=seed), batch["targets"])
            # Divided here, one number, and not in the gradients, as many as there are weights.
            scaled = loss_sum * (self.loss_scale.value() / divisor(tokens))
        gradients = tape.gradient(scaled, self._weights)
        self._reached[problem] = [index for index, gradient in enumerate(gradients) if gradient is not None]
        return [tf.convert_to_tensor(gradients[index]) for index in self._reached[problem]], loss_sum, tokens

    def _reduce(self, problem: str, gradients, loss_sum, tokens, divisor):
        """On one replica: the same global gradient everywhere, divided once more, with its noise, clipped."""
        context = tf.distribute.get_replica_context()
        gradients, loss_sum, tokens = context.all_reduce(tf.distribute.ReduceOp.SUM, (gradients, loss_sum, tokens))
        scale = 1.0 / (divisor * self.loss_scale.value())
        if tf.get_static_value(scale) != 1.0:
            gradients = [g * scale for g in gradients]
        if self._noise:
            gradients = self._noisy(problem, gradients)
        norm = tf.linalg.global_norm(gradients)
        if self._clip:
            gradients, _ = tf.clip_by_global_norm(gradients, self._clip, use_norm=norm)
        return gradients, loss_sum, tokens, norm

    def _noisy(self, problem: str, gradients):
        """On one replica: the gradients with normal noise that is a function of (run seed, update, weight).

        Its variance falls with the update's number, see `NOISE_FALL`.
        """
        done = tf.cast(self.optimizer.iterations.value, tf.int64)
        deviation = self._noise * tf.cast(done + 1, tf.float32) ** (-NOISE_FALL / 2)
        return [
            g + deviation * tf.random.stateless_normal(tf.shape(g), tf.stack([noise_seed(self._run_seed, index), done]))
            for index, g in zip(self._reached[problem], gradients, strict=True)
        ]

    def _apply(self, problem: str, applies, gradients, loss_sum, tokens, norm) -> UpdateStats:
        """Across replicas: applies the gradient where it is finite, and this is not a warm-up."""
        loss_sum, tokens, norm = (self.strategy.experimental_local_results(x)[0] for x in (loss_sum, tokens, norm))
        finite = tf.math.is_finite(norm) & tf.math.is_finite(loss_sum) & (tokens > 0)

        def apply_update():
            with self.strategy.scope():
                self._update_variables(problem, gradients)
            return tf.constant(True)

        tf.cond(finite & applies, apply_update, lambda: tf.constant(False))
        with self.strategy.scope():
            self.loss_scale.update(finite, applies)
        return UpdateStats(loss_sum, tokens, norm, finite)

    def _update_variables(self, problem: str, gradients) -> None:
        rate = tf.convert_to_tensor(self.optimizer.learning_rate.value)
        update = self.strategy.extended.update

        def update_weight(weight, gradient):
            if self._weight_decay and weight.shape.rank >= 2:
                weight.assign_sub(weight * rate * self._weight_decay)
            self.optimizer.update_step(gradient, weight, rate)

        def average(mean, weight):
            mean.assign_add((weight - mean) * (1.0 - self._ema_decay))

        reached = self._reached[problem]
        for index, gradient in zip(reached, gradients, strict=True):
            update(self._weights[index], update_weight, args=(gradient,), group=False)
        self.optimizer.iterations.assign_add(1)
        for index in reached if self.ema else ():
            update(self.ema[index], average, args=(self._weights[index],), group=False)

    def _ensure_sums(self) -> None:
        if not self._sums:
            by_replica = {
                "synchronization": tf.VariableSynchronization.ON_READ, "aggregation": tf.VariableAggregation.SUM,
            }  # fmt: skip
            shapes = [*(w.shape for w in self._weights), (), ()]
            with self.strategy.scope():
                self._sums = [tf.Variable(tf.zeros(shape), trainable=False, **by_replica) for shape in shapes]


def _local_value(of_replicas):
    """On one replica: its own of a list with something for each."""
    context = tf.distribute.get_replica_context()
    return of_replicas[tf.get_static_value(tf.convert_to_tensor(context.replica_id_in_sync_group))]


def _global_tokens(tokens):
    """On one replica: the number of tokens of all, at least 1, so that nothing is divided by 0."""
    return tf.maximum(tf.distribute.get_replica_context().all_reduce(tf.distribute.ReduceOp.SUM, tokens), 1.0)
