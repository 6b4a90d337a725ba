"""An update as programs of XLA on all devices, see `t2t.backends.update`.

One program computes the gradient of a batch, for each shape; with several micro-batches it adds it to that of the ones
before. The last program changes the weights and is the same for all.
Between updates the state is in Keras's variables. Each update passes it to a program that may reuse its buffers for
the new state (donation), and assigns the new state to the variables.

Legend: R replicas.
"""

import dataclasses
import functools
import itertools
import threading
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import keras
import numpy as np
from jax.sharding import PartitionSpec

from t2t.backends.jax.devices import REPLICA, MeshDevices, gather
from t2t.backends.jax.kernels import JaxKernels, fused_kernels
from t2t.backends.jax.padding import Padding, Shape, empty_batch, pad_batches, target_sizes
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
from t2t.files.processor import available_cores
from t2t.layers.mode import in_mode

MOST_COMPILED = 8
"""Programs compiled at a time. Compiling one takes memory: 200 MB for a small Transformer, 1 GB for base."""

Values = list[jax.Array]
"""Values of `JaxUpdate._state`, in its order."""


@dataclasses.dataclass
class _Reach:
    """Indices of the variables that a problem's loss reads and assigns; known once it is traced."""

    read: list[int] = dataclasses.field(default_factory=list)
    assigned: list[int] = dataclasses.field(default_factory=list)


class ReplicaBatches(NamedTuple):
    """A batch for each replica, as part of an update; axis 0 of all arrays is the replicas."""

    features: dict[str, jax.Array]
    seeds: jax.Array
    """(R, 4) uint32."""
    sizes: jax.Array
    """(R,) float32: target tokens with padding."""
    counts: jax.Array
    """(R,) float32: 1 for a real batch, 0 for one that is computed and ignored."""


class Parts:
    """Makes the parts of updates: a part has a batch for each replica.

    Args:
        loss: knows the model of a problem.
        devices: to train on.
        run_seed: seed of the dropout masks.
    """

    def __init__(self, loss: LossFunction, devices: MeshDevices, run_seed: int):
        self._loss, self._devices, self._run_seed = loss, devices, run_seed
        self._paddings: dict[str, Padding] = {}

    def of_update(self, micro_batches: Sequence[Sequence[Features]], update: int, problem: str) -> list[ReplicaBatches]:
        """Returns the parts of an update: one for each micro-batch, or for each micro-batch one per replica."""
        return [
            part
            for number, batches in enumerate(micro_batches)
            for part in self._of_micro_batch(batches, update, number, problem)
        ]

    def _of_micro_batch(
        self, batches: Sequence[Features], update: int, micro_batch: int, problem: str
    ) -> list[ReplicaBatches]:
        """Returns one part with the batches of all replicas, or, if their shapes differ, a part for each.

        In the second case every device computes each batch, which counts on one of them.
        """
        own = self._devices.own
        seeds = np.stack([dropout_seed(self._run_seed, update, micro_batch, r) for r in own]).view(np.uint32)
        sizes, ones = target_sizes(batches), np.ones(len(batches), np.float32)
        shapes_R = self._shapes(batches)
        shape = self._padding(problem).common_shape(shapes_R)
        if shape is not None:
            return [self._part(pad_batches(batches, shape), seeds, sizes, ones)]
        parts = []
        for replica, of_replica in enumerate(shapes_R):
            batch = batches[own.index(replica)] if replica in own else empty_batch(of_replica, batches[0])
            counts = np.array([r == replica for r in own], np.float32)
            parts.append(self._part(pad_batches([batch] * len(batches), of_replica), seeds, sizes, counts))
        return parts

    def _shapes(self, batches: Sequence[Features]) -> list[Shape]:
        """Returns the shapes of the batches of all replicas."""
        own: list[Shape] = [{name: array.shape for name, array in batch.items()} for batch in batches]
        if len(own) == self._devices.replicas:
            return own
        flat_N = np.array([[size for name in sorted(shape) for size in shape[name]] for shape in own]).ravel()
        all_RN = gather(flat_N).reshape(self._devices.replicas, -1).tolist()
        return [
            {name: tuple(itertools.islice(sizes, len(own[0][name]))) for name in sorted(own[0])}
            for sizes in map(iter, all_RN)
        ]

    def _part(self, stacked: Features, seeds: np.ndarray, sizes: np.ndarray, counts: np.ndarray) -> ReplicaBatches:
        """Returns the part with its arrays split over the devices."""
        return ReplicaBatches(*self._devices.split((stacked, seeds, sizes, counts)))

    def _padding(self, problem: str) -> Padding:
        if problem not in self._paddings:
            model = self._loss.model_of(problem)
            self._paddings[problem] = Padding(model.spec, model.longest_sequence)
        return self._paddings[problem]


class Programs:
    """Compiled programs by name, problem and shape of a batch, their last argument; threads compile some ahead.

    Args:
        build: returns the function of a name and a problem, of `jax.jit`.
        layout: of the results that one program gives to the next.
        threads: number of threads.
    """

    def __init__(self, build: Callable[[str, str], Any], layout: jax.sharding.Sharding, threads: int):
        self.function, self._layout = functools.cache(build), layout
        self._threads = ThreadPoolExecutor(max(1, min(threads, MOST_COMPILED)))
        self.jobs: list[Future] = []
        self.tracing = threading.RLock()
        """Held while a program is traced, which is Python and cannot be done in parallel."""
        self._specs: dict[tuple, Future] = {}
        """Of programs that are compiled, or about to be: the specs of their results."""
        self._lock = threading.Lock()

    def run(self, name: str, problem: str, *given: Any) -> Any:
        """Runs a program; compiles it if no thread has."""
        self.compile(name, problem, *given)
        return self.function(name, problem)(*given)

    def ahead(self, job: Callable, *given: Any) -> None:
        """Has a thread call a function that compiles programs."""
        self.jobs.append(self._threads.submit(job, *given))

    def has(self, name: str, problem: str, last: Any) -> bool:
        """Returns whether a program with this last argument is compiled, or being compiled."""
        return self._key(name, problem, last) in self._specs

    def compile(self, name: str, problem: str, *given: Any) -> Any:
        """Compiles a program, or waits for the thread that does; returns the specs of its results."""
        key = self._key(name, problem, given[-1])
        with self._lock:
            is_new = key not in self._specs
            found = self._specs.setdefault(key, Future())
        if is_new:
            try:
                with self.tracing:
                    lowered = self.function(name, problem).lower(*given)
                lowered.compile()
            except BaseException as error:
                found.set_exception(error)
                raise
            split = functools.partial(jax.ShapeDtypeStruct, sharding=self._layout)
            results = lowered.out_info if name != "apply" else ()  # nothing reads what the last one returns
            found.set_result(jax.tree.map(lambda one: split(one.shape, one.dtype), results))
        return found.result()

    def _key(self, name: str, problem: str, last: Any) -> tuple:
        return (name, problem, *(() if name == "apply" else map(np.shape, jax.tree.leaves(last))))


class JaxUpdate(Update):
    """Computes and applies updates on a mesh of devices.

    Args:
        loss: to minimize.
        optimizer: of Keras.
        devices: to train on.
        rules: how to compute updates.
    """

    def __init__(
        self, loss: LossFunction, optimizer: keras.optimizers.Optimizer, devices: MeshDevices, rules: UpdateRules
    ):
        self._loss, self._optimizer, self._devices, self._rules = loss, optimizer, devices, rules
        self._parts = Parts(loss, devices, rules.run_seed)
        self._kernels = fused_kernels() if rules.fused_attention else JaxKernels()
        self._reduction_dtype = rules.reduction_dtype if devices.replicas > 1 else "float32"
        averaged = loss.trained if rules.ema_decay else ()
        with devices.scope():
            optimizer.build(loss.trained)
            self.ema = [keras.Variable(np.asarray(v), trainable=False, name=f"{v.name}_ema") for v in averaged]
            self.loss_scale = LossScale(rules.scale_loss)
        slots = [v for v in optimizer.variables if v is not optimizer.learning_rate]
        gradient_reads = [*self._loss.variables, *self.loss_scale.variables]
        self._gradient_reads = len(gradient_reads)
        """Number of variables, the first of the state, that the gradient of a batch depends on."""
        self._state = [*gradient_reads, *slots, *self.ema]
        self._own: Sequence[jax.Array | None] = [None] * len(self._state)
        """What the last update assigned to the variables: this process's part of the arrays in `_on_all`."""
        self._on_all: Sequence[jax.Array | None] = self._own
        self._reach: dict[str, _Reach] = {}
        self._no_sums: dict[str, Callable[[], Any]] = {}
        # XLA may tune programs on an accelerator, which must be idle then.
        self.compiles_meanwhile = not devices.are_gpus and devices.replicas == len(devices.own)
        threads = available_cores() - self.compiles_meanwhile  # updates that run meanwhile have a core for themselves
        if devices.replicas > len(devices.own):
            threads = 1  # workers compile in the same order, since compiling may make them wait for each other
        self._programs = Programs(self._build, devices.split_layout, threads)
        self.jobs = self._programs.jobs
        self._waiting: list[tuple[list[list[ReplicaBatches]], str]] = []
        """Updates whose programs will be compiled, and their problem."""

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
        state = self._state_on_all()
        parts = self._parts.of_update(micro_batches, update, problem)
        new = [part for part in parts[1:] if not self._programs.has("add", problem, part)]
        if new and self.compiles_meanwhile:  # while this thread compiles the program of the first part
            self._compile_ahead([[part] * len(parts) for part in new], problem)
        run, settings = self._programs.run, self._settings(applies, update, rate, stops)
        state, stats = self._in_order(run, problem, state, parts, settings)
        self._keep(state)
        if applies:
            self._compile_waiting()
        return UpdateStats(*stats)

    def compile(self, updates: Iterable[Sequence[Sequence[Features]]], problem: str) -> None:
        """See the base class. Where updates run meanwhile, the first one comes first."""
        parts_of_each = [self._parts.of_update(micro_batches, 0, problem) for micro_batches in updates]
        self._waiting.append((parts_of_each, problem))
        if not self.compiles_meanwhile:
            self._compile_waiting()
            wait(self.jobs)

    def stop_compiling(self) -> None:
        """See the base class."""
        self._waiting.clear()
        super().stop_compiling()

    @property
    def is_compiling(self) -> bool:
        """See the base class."""
        return bool(self._waiting) or super().is_compiling

    def _compile_waiting(self) -> None:
        while self._waiting:
            self._compile_ahead(*self._waiting.pop(0))

    def _compile_ahead(self, updates: Sequence[Sequence[ReplicaBatches]], problem: str) -> None:
        """Has threads compile the programs of updates."""
        # Not the arrays, which updates may replace meanwhile.
        state = [jax.ShapeDtypeStruct(v.shape, v.dtype, sharding=v.sharding) for v in self._state_on_all()]
        settings = self._settings(False, 0, 0.0, False)
        for parts in updates:
            self._programs.ahead(self._in_order, self._programs.compile, problem, state, parts, settings)

    def _in_order(
        self, run: Callable, problem: str, state: Values, parts: Sequence[ReplicaBatches], settings: tuple
    ) -> Any:
        """Calls `run` for each program of an update in order; returns the last result.

        The last program does not depend on the shapes of the batches, so it is compiled only once.
        """
        read = state[: self._gradient_reads]
        if len(parts) == 1:
            sums = run("sum", problem, read, parts[0])
        else:
            sums = self._zeros(problem, read, parts[0])
            for part in parts:
                sums = run("add", problem, read, sums, part)
        return run("apply", problem, state, sums, *settings)

    def _settings(self, applies: bool, update: int, rate: float, stops: bool) -> tuple:
        stops_R = self._devices.split(np.full(len(self._devices.own), stops, np.float32))
        return np.bool_(applies), np.int32(updates_done(update)), np.float32(rate), stops_R

    def _state_on_all(self) -> Values:
        """Returns the state on all devices; variables assigned since the last update are copied there."""
        values = [variable.value for variable in self._state]
        return [
            on_all if on_all is not None and own is value else self._devices.copy_to_all(value)
            for value, own, on_all in zip(values, self._own, self._on_all, strict=True)
        ]

    def _keep(self, state: Values) -> None:
        """Assigns this process's part of the new state to the variables."""
        self._own, self._on_all = [self._devices.own_copies(value) for value in state], state
        for variable, value in zip(self._state, self._own, strict=True):
            variable.assign(value)

    def _build(self, name: str, problem: str) -> Any:
        """Returns a compiled function on all devices; one program for each shape of batches."""
        same, split = PartitionSpec(), PartitionSpec(REPLICA)
        settings = (same, same, same, split)
        layouts = [self._devices.layout(tuple(variable.shape)) for variable in self._state]
        new = (layouts, self._devices.layout(()))
        # Until the reduction, each replica has its own sums over micro-batches.
        kinds: dict[str, tuple[Callable, Any, Any, tuple[int, ...], Any]] = {
            "sum": (self._local_sums, (same, split), split, (), None),
            "add": (self._add_sums, (same, split, split), split, (1,), None),
            "apply": (self._apply, (same, split, *settings), same, (0,), new),
        }
        function, given, found, donated, lies = kinds[name]
        # Along the axis of shards, XLA partitions the work by the layout of the weights.
        on_each = jax.shard_map(
            functools.partial(function, problem), mesh=self._devices.mesh, axis_names={REPLICA},
            in_specs=given, out_specs=found, check_vma=False,
        )  # fmt: skip
        return jax.jit(on_each, donate_argnums=donated, out_shardings=lies)

    def _zeros(self, problem: str, read: Values, part: ReplicaBatches) -> Any:
        """Returns the zeros to which the sums of several micro-batches are added."""
        with self._programs.tracing:
            if problem not in self._no_sums:
                sums = jax.eval_shape(self._programs.function("sum", problem), read, part)
                zeros = functools.partial(jax.tree.map, lambda one: jnp.zeros(one.shape, one.dtype), sums)
                self._no_sums[problem] = jax.jit(zeros, out_shardings=self._devices.split_layout)
        return self._no_sums[problem]()

    def _add_sums(self, problem: str, read: Values, sums, part: ReplicaBatches):
        return jax.tree.map(jnp.add, sums, self._local_sums(problem, read, part))

    def _local_sums(self, problem: str, read: Values, part: ReplicaBatches) -> Any:
        """On one replica: gradients of its loss sum times the loss scale, changes of statistics times tokens, counts.

        `read` is the part of the state that they depend on. Axis 0 of all results is the replicas; its size here is 1.
        """
        values = read[: len(self._loss.variables)]
        trained, fixed = values[: len(self._loss.trained)], values[len(self._loss.trained) :]
        features, seed, size, counts = jax.tree.map(lambda value: value[0], part)
        reach = self._reach.setdefault(problem, _Reach())
        with self._scope_of(read):
            loss_scale = self.loss_scale.value()
        # In float16 a sum over thousands of tokens would overflow at any useful scale; their mean does not.
        padded = size if self.loss_scale.dynamic else jnp.float32(1.0)

        def scaled_loss(trained: Values):
            # Philox is several times as fast on devices as Keras's default, threefry. Its keys have four words.
            with jax.default_prng_impl("rbg"):
                found = self._loss(problem, [*trained, *fixed], features, seed)
            reach.read = [number for number in found.read if number < len(self._loss.trained)]
            reach.assigned = list(found.statistics)
            changes = [(after - before) * found.loss.tokens for before, after in found.statistics.values()]
            return found.loss.minimized * (loss_scale / padded), (found.loss, changes)

        with in_mode(counted_loops=True, layer_loops=True, kernels=self._kernels):
            gradients, (loss, changes) = jax.grad(scaled_loss, has_aux=True)(trained)
        gradients = [gradients[number] * padded for number in reach.read]
        sums = (gradients, changes, jnp.stack([loss.loss_sum, loss.tokens, size]))
        return jax.tree.map(lambda value: jnp.where(counts > 0, value, 0.0)[None], sums)

    def _apply(self, problem: str, state: Values, sums, applies, done, rate, stops) -> tuple[Values, tuple]:
        """On one replica, with the same results on all: the next state, and the values of `UpdateStats`."""
        gradients, changes, counts = jax.tree.map(lambda value: value[0], sums)
        add_up = functools.partial(jax.lax.psum, axis_name=REPLICA)
        gradients = [add_up(g.astype(self._reduction_dtype)).astype(jnp.float32) for g in gradients]
        changes, (loss_sum, tokens, padded), stops = add_up(changes), add_up(counts), add_up(stops[0])
        with self._scope_of(state) as scope:
            loss_scale = self.loss_scale.value()
            scale = 1.0 / (jnp.maximum(tokens, 1.0) * loss_scale)
            gradients = [gradient * scale for gradient in gradients]
            if self._rules.gradient_noise:
                gradients = self._with_noise(problem, gradients, done)
            norm = jnp.sqrt(sum(jnp.sum(jnp.square(gradient)) for gradient in gradients))
            finite = jnp.isfinite(norm) & jnp.isfinite(loss_sum) & (tokens > 0)
            if self._rules.clip_grad_norm:
                factor = jnp.minimum(self._rules.clip_grad_norm / norm, 1.0)
                gradients = [gradient * factor for gradient in gradients]
            self._change_weights(problem, gradients, rate)
            for number, change in zip(self._reach[problem].assigned, changes, strict=True):
                self._loss.variables[number].assign_add(change / jnp.maximum(tokens, 1.0))
            self._optimizer.iterations.assign_add(1)
        applied = finite & applies
        new = [
            jnp.where(applied, scope.get_current_value(variable), old)
            for variable, old in zip(self._state, state, strict=True)
        ]
        with self._scope_of(state) as scope:  # also after an overflow, which lowers the scale
            self.loss_scale.update(finite, applies)
        for number, variable in enumerate(self.loss_scale.variables, len(self._loss.variables)):
            new[number] = scope.get_current_value(variable)
        return new, (loss_sum, tokens, norm, finite, padded, stops, loss_scale)

    def _change_weights(self, problem: str, gradients: Values, rate) -> None:
        """Updates the weights that a problem's loss depends on, their slots and averages; called within a scope."""
        for number, gradient in zip(self._reach[problem].read, gradients, strict=True):
            weight = self._loss.trained[number]
            self._rules.decay(weight, rate)
            self._optimizer.update_step(gradient, weight, rate)
            if self.ema:
                self._rules.average(self.ema[number], weight, 1.0 - self._rules.ema_decay)

    def _with_noise(self, problem: str, gradients: Values, done) -> Values:
        """Adds normal noise, a function of (run seed, update, weight), whose variance falls, see `NOISE_FALL`.

        `done`, () int32, is the number of updates of the run before this one.
        """
        deviation = self._rules.noise_deviation(done)
        keys = [
            jax.random.fold_in(
                jax.random.key(int(noise_seed(self._rules.run_seed, number)) % 2**31, impl="threefry2x32"), done
            )
            for number in self._reach[problem].read
        ]
        return [
            gradient + deviation * jax.random.normal(key, gradient.shape)
            for gradient, key in zip(gradients, keys, strict=True)
        ]

    def _scope_of(self, values: Values) -> keras.StatelessScope:
        """Returns a scope in which the first variables of the state have these values."""
        return keras.StatelessScope(
            state_mapping=list(zip(self._state[: len(values)], values, strict=True)), initialize_variables=False
        )
