"""An update as one program of XLA on all devices, see `t2t.training.step`.

The state lies in the variables of Keras between updates. Each update takes it from there, gives it to a program that
may write the new state over it, and puts the new state back.

Legend: R replicas.
"""

import dataclasses
import functools
import itertools
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import keras
import numpy as np
from jax.sharding import PartitionSpec

from t2t.layers.loops import counted_loops
from t2t.models.base import SequenceModel
from t2t.training.batch_loss import BatchLossFunction
from t2t.training.jax.devices import REPLICA, MeshDevices
from t2t.training.jax.padding import Padding, Shape, empty_batch, pad_batches, target_sizes
from t2t.training.jax.workers import gather
from t2t.training.loss_scale import LossScale
from t2t.training.seeds import dropout_seed, noise_seed
from t2t.training.step import NOISE_FALL, Features, UpdateStats, UpdateStep

Values = list[jax.Array]
"""Of the variables of the state, in their order."""


@dataclasses.dataclass
class _Reach:
    """What the loss of a problem depends on and what it assigns, by numbers of variables; known once it is traced."""

    read: list[int] = dataclasses.field(default_factory=list)
    assigned: list[int] = dataclasses.field(default_factory=list)


class _Kept(NamedTuple):
    """A value of the state after an update."""

    own: jax.Array
    """As its variable has it."""
    on_all: jax.Array
    """As all devices have it."""


class _Part(NamedTuple):
    """A batch for each replica, as part of an update; everything has the replicas as its first axis."""

    features: dict[str, jax.Array]
    seeds: jax.Array
    """(R, 4) uint32."""
    sizes: jax.Array
    """(R,) float32: target tokens with padding."""
    counts: jax.Array
    """(R,) float32: 1 where it counts, 0 where it is there to have something to compute."""


class JaxStep(UpdateStep):
    """Computes and applies updates on a row of devices.

    Args:
        model: of one problem or several.
        optimizer: of Keras.
        devices: that train.
        scale_loss: whether to scale the loss dynamically (float16).
        reduction_dtype: in which several replicas add up their gradients.
        rules: see the base class.
    """

    def __init__(
        self,
        model: SequenceModel,
        optimizer: keras.optimizers.Optimizer,
        devices: MeshDevices,
        *,
        scale_loss: bool = False,
        reduction_dtype: str = "float32",
        **rules: Any,
    ):
        super().__init__(model, optimizer, **rules)
        self._devices, self.replicas, self.own = devices, devices.replicas, devices.own
        self._reduction_dtype = reduction_dtype if self.replicas > 1 else "float32"
        self._loss = BatchLossFunction(model, self.objective, self.adapters)
        averaged = self.trained if self._ema_decay else ()
        with devices.scope():
            optimizer.build(self.trained)
            self.ema = [keras.Variable(np.asarray(v), trainable=False, name=f"{v.name}_ema") for v in averaged]
            self.loss_scale = LossScale(scale_loss)
        slots = [v for v in optimizer.variables if v is not optimizer.learning_rate]
        self._state = [*self._loss.variables, *slots, *self.ema, *self.loss_scale.variables]
        self._kept: list[_Kept | None] = [None] * len(self._state)
        self._reach: dict[str, _Reach] = {}
        self._programs: dict[tuple[str, str], Any] = {}

    def _run(
        self,
        micro_batches: Sequence[Sequence[Features]],
        update: int,
        rate: float,
        problem: str,
        applies: bool,
        stops: bool = False,
    ) -> UpdateStats:
        stops_R = self._devices.split(np.full(len(self.own), stops, np.float32))
        settings = (np.bool_(applies), np.float32(rate), stops_R)
        state = self._state_on_all()
        parts = [
            part for index, batches in enumerate(micro_batches) for part in self._parts(batches, update, index, problem)
        ]
        if len(parts) == 1:
            state, stats = self._program("whole", problem)(state, parts[0], *settings)
        else:
            sums = self._program("first", problem)(state, parts[0])
            for part in parts[1:]:
                sums = self._program("add", problem)(state, sums, part)
            state, stats = self._program("apply", problem)(state, sums, *settings)
        self._keep(state)
        return UpdateStats(*stats)

    def _state_on_all(self) -> Values:
        """Returns the state as all devices have it; what somebody has assigned since the last update is sent there."""
        return [
            kept.on_all if kept and kept.own is variable.value else self._devices.copy_to_all(variable.value)
            for variable, kept in zip(self._state, self._kept, strict=True)
        ]

    def _keep(self, state: Values) -> None:
        """Puts the state that all devices have into the variables, as the replicas of this process have it."""
        for number, (variable, value) in enumerate(zip(self._state, state, strict=True)):
            variable.assign(self._devices.own_copies(value))
            self._kept[number] = _Kept(variable.value, value)

    def _parts(self, batches: Sequence[Features], update: int, micro_batch: int, problem: str) -> list[_Part]:
        """Returns the batches of the replicas as one part, or as several, of which each is one replica's.

        These are for batches whose shapes differ: every device computes each, and it counts on one of them.
        """
        batches = self.objective.prepare(batches, update, problem)
        seeds = np.stack([dropout_seed(self._run_seed, update, micro_batch, r) for r in self.own]).view(np.uint32)
        sizes, ones = target_sizes(batches), np.ones(len(batches), np.float32)
        shapes_R = self._shapes(batches)
        shape = self._padding(problem).common_shape(shapes_R)
        if shape is not None:
            return [self._part(pad_batches(batches, shape), seeds, sizes, ones)]
        parts = []
        for replica, of_replica in enumerate(shapes_R):
            batch = batches[self.own.index(replica)] if replica in self.own else empty_batch(of_replica, batches[0])
            counts = np.array([r == replica for r in self.own], np.float32)
            parts.append(self._part(pad_batches([batch] * len(batches), of_replica), seeds, sizes, counts))
        return parts

    def _shapes(self, batches: Sequence[Features]) -> list[Shape]:
        """Returns the shapes of the batches of all replicas."""
        own: list[Shape] = [{name: array.shape for name, array in batch.items()} for batch in batches]
        if len(self.own) == self.replicas:
            return own
        flat = np.array([[size for name in sorted(shape) for size in shape[name]] for shape in own])
        all_RN = gather(flat.ravel()).reshape(self.replicas, -1).tolist()
        return [
            {name: tuple(itertools.islice(sizes, len(own[0][name]))) for name in sorted(own[0])}
            for sizes in map(iter, all_RN)
        ]

    def _part(self, stacked: Features, seeds: np.ndarray, sizes: np.ndarray, counts: np.ndarray) -> _Part:
        """Returns it with the part of each replica on its device."""
        split = self._devices.split
        return _Part({name: split(array) for name, array in stacked.items()}, split(seeds), split(sizes), split(counts))

    @functools.cache  # noqa: B019 (as long as the step lives)
    def _padding(self, problem: str) -> Padding:
        model = self.model.for_problem(problem) if problem else self.model
        return Padding(model.spec, model.longest_sequence)

    def _program(self, name: str, problem: str) -> Any:
        """Returns a compiled function on all devices; one program for each shape of batches."""
        if (name, problem) not in self._programs:
            same, split = PartitionSpec(), PartitionSpec(REPLICA)
            settings = (same, same, split)
            layouts = [self._devices.layout(tuple(variable.shape)) for variable in self._state]
            new = (layouts, self._devices.layout(()))
            # Sums of micro-batches are each replica's own until they are reduced.
            kinds: dict[str, tuple[Callable, Any, Any, tuple[int, ...], Any]] = {
                "whole": (self._full_update, (same, split, *settings), same, (0,), new),
                "first": (self._local_sums, (same, split), split, (), None),
                "add": (self._add_sums, (same, split, split), split, (1,), None),
                "apply": (self._apply, (same, split, *settings), same, (0,), new),
            }
            function, given, found, donated, lies = kinds[name]
            # Along the axis of shards, XLA splits the work by how the weights lie.
            on_each = jax.shard_map(
                functools.partial(function, problem), mesh=self._devices.mesh, axis_names={REPLICA},
                in_specs=given, out_specs=found, check_vma=False,
            )  # fmt: skip
            self._programs[name, problem] = jax.jit(on_each, donate_argnums=donated, out_shardings=lies)
        return self._programs[name, problem]

    def _full_update(self, problem: str, state: Values, part: _Part, applies, rate, stops):
        sums = self._local_sums(problem, state, part)
        return self._apply(problem, state, sums, applies, rate, stops)

    def _add_sums(self, problem: str, state: Values, sums, part: _Part):
        return jax.tree.map(jnp.add, sums, self._local_sums(problem, state, part))

    def _local_sums(self, problem: str, state: Values, part: _Part) -> Any:
        """On one replica: gradients of its loss sum times the loss scale, changes of statistics times tokens, counts.

        All have a first axis of size 1, that of the replicas.
        """
        values = state[: len(self._loss.variables)]
        trained, fixed = values[: self._loss.trained], values[self._loss.trained :]
        features, seed, size, counts = jax.tree.map(lambda value: value[0], part)
        reach = self._reach.setdefault(problem, _Reach())
        with self._scope_of(state):
            loss_scale = self.loss_scale.value()
        # In float16 a sum over thousands of tokens would overflow at any useful scale; their mean does not.
        padded = size if self.loss_scale.dynamic else jnp.float32(1.0)

        def scaled_loss(trained: Values):
            # Philox, which devices draw several times as fast as Keras's default, threefry; its keys have four words.
            with jax.default_prng_impl("rbg"):
                found = self._loss(problem, [*trained, *fixed], features, seed)
            reach.read = [number for number in found.read if number < self._loss.trained]
            reach.assigned = list(found.statistics)
            changes = [(after - before) * found.loss.tokens for before, after in found.statistics.values()]
            return found.loss.minimized * (loss_scale / padded), (found.loss, changes)

        with counted_loops():
            gradients, (loss, changes) = jax.grad(scaled_loss, has_aux=True)(trained)
        gradients = [gradients[number] * padded for number in reach.read]
        sums = (gradients, changes, jnp.stack([loss.loss_sum, loss.tokens, size]))
        return jax.tree.map(lambda value: jnp.where(counts > 0, value, 0.0)[None], sums)

    def _apply(self, problem: str, state: Values, sums, applies, rate, stops) -> tuple[Values, tuple]:
        """On one replica, the same on all: the next state, and what the update did."""
        gradients, changes, counts = jax.tree.map(lambda value: value[0], sums)
        add_up = functools.partial(jax.lax.psum, axis_name=REPLICA)
        gradients = [add_up(g.astype(self._reduction_dtype)).astype(jnp.float32) for g in gradients]
        changes, (loss_sum, tokens, padded), stops = add_up(changes), add_up(counts), add_up(stops[0])
        with self._scope_of(state) as scope:
            scale = 1.0 / (jnp.maximum(tokens, 1.0) * self.loss_scale.value())
            gradients = [gradient * scale for gradient in gradients]
            if self._noise:
                gradients = self._with_noise(problem, gradients)
            norm = jnp.sqrt(sum(jnp.sum(jnp.square(gradient)) for gradient in gradients))
            finite = jnp.isfinite(norm) & jnp.isfinite(loss_sum) & (tokens > 0)
            if self._clip:
                factor = jnp.minimum(self._clip / norm, 1.0)
                gradients = [gradient * factor for gradient in gradients]
            self._change_weights(problem, gradients, rate)
            for number, change in zip(self._reach[problem].assigned, changes, strict=True):
                self._loss.variables[number].assign_add(change / jnp.maximum(tokens, 1.0))
            self.optimizer.iterations.assign_add(1)
        applied = finite & applies
        new = [
            jnp.where(applied, scope.get_current_value(variable), old)
            for variable, old in zip(self._state, state, strict=True)
        ]
        with self._scope_of(state) as scope:  # it also falls by what is not applied
            self.loss_scale.update(finite, applies)
        for number, variable in enumerate(self.loss_scale.variables, len(new) - len(self.loss_scale.variables)):
            new[number] = scope.get_current_value(variable)
        return new, (loss_sum, tokens, norm, finite, padded, stops)

    def _change_weights(self, problem: str, gradients: Values, rate) -> None:
        """Changes the weights that the loss of a problem reaches, their slots and averages; in a scope."""
        for number, gradient in zip(self._reach[problem].read, gradients, strict=True):
            weight = self.trained[number]
            if self._weight_decay and len(weight.shape) >= 2:
                weight.assign_sub(weight.value * (rate * self._weight_decay))
            self.optimizer.update_step(gradient, weight, rate)
            if self.ema:
                mean = self.ema[number]
                mean.assign_add((weight.value - mean.value) * (1.0 - self._ema_decay))

    def _with_noise(self, problem: str, gradients: Values) -> Values:
        """Adds normal noise, a function of (run seed, update, weight), whose variance falls, see `NOISE_FALL`."""
        done = self.optimizer.iterations.value
        deviation = self._noise * (done + 1).astype(jnp.float32) ** (-NOISE_FALL / 2)
        keys = [
            jax.random.fold_in(
                jax.random.key(int(noise_seed(self._run_seed, number)) % 2**31, impl="threefry2x32"), done
            )
            for number in self._reach[problem].read
        ]
        return [
            gradient + deviation * jax.random.normal(key, gradient.shape)
            for gradient, key in zip(gradients, keys, strict=True)
        ]

    def _scope_of(self, state: Values) -> keras.StatelessScope:
        """Returns a scope in which the variables of the state have these values."""
        return keras.StatelessScope(
            state_mapping=list(zip(self._state, state, strict=True)), initialize_variables=False
        )
