"""Functions of models that JAX compiles for each shape of their arguments, the copies of weights that they read; cost.

Legend: B rows of a batch, as they are given and as they are padded.
"""

import contextvars
import logging
import math
import threading
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import keras
import numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec

from t2t.backends.base import Batch, CompiledFunction, ComputeCost
from t2t.backends.jax.kernels import JaxKernels
from t2t.backends.jax.padding import padded_length, padded_rows
from t2t.data.reading.batching import pad_to
from t2t.layers.mode import in_mode
from t2t.models.adapted import AdaptedModel
from t2t.models.base import SequenceModel

log = logging.getLogger("t2t")

_SHARD = "shard"
"""The axis of a mesh along which the devices hold the parts of a copy; the axis before it is that of the copies."""

current_copy: contextvars.ContextVar[int] = contextvars.ContextVar("device", default=0)
"""Index of the copy that this thread uses, which lies on one device or is split over several."""


def rows_of(value: jax.Array) -> list[list[jax.Device]]:
    """Returns the devices of each copy of a value."""
    if not isinstance(value.sharding, NamedSharding):
        return [list(value.sharding.device_set)]
    return value.sharding.mesh.devices.tolist()


def _copy(value: jax.Array, row: Sequence[jax.Device]) -> jax.Array:
    """Returns the copy of a value on the devices `row`, as an array on these alone; copies it there if needed."""
    parts = {shard.device: shard.data for shard in value.addressable_shards}
    is_there = isinstance(value.sharding, NamedSharding) and parts.keys() >= set(row)
    if len(row) == 1:
        return parts[row[0]] if is_there else jax.device_put(value, row[0])
    layout = NamedSharding(Mesh(np.array(row), (_SHARD,)), value.sharding.spec if is_there else PartitionSpec())
    if not is_there:
        return jax.device_put(value, layout)
    return jax.make_array_from_single_device_arrays(value.shape, layout, [parts[device] for device in row])


class Program:
    """A compiled function of tensors that reads the current weights of a model at each call.

    Args:
        model: whose weights it reads; None for none.
        function: of tensors.
        name: what it does, for the log.
        constants: indices, from 0, of arguments that are not tensors; each of their values needs its own program.
        replaces: whether the results may take the memory of the first argument, which must not be read again.
    """

    def __init__(
        self,
        model: SequenceModel | None,
        function: Callable,
        name: str,
        constants: Sequence[int] = (),
        replaces: bool = False,
    ):
        if isinstance(model, AdaptedModel):
            function = model.with_adapters(function)
        self._variables, self._name = [] if model is None else model.variables, name
        self._constants = frozenset(constants)
        self._copies: dict[int, tuple[list[jax.Array], list[jax.Array]]] = {}
        """By number of the copy, see `current_copy`: the values that were copied, and what they are there."""
        self._compiled_for: set[Any] = set()
        self._lock = threading.Lock()

        def of_weights(weights, *given):
            mapping = list(zip(self._variables, weights, strict=True))
            scope = keras.StatelessScope(state_mapping=mapping, initialize_variables=False)
            with in_mode(gradients=False, layer_loops=True, kernels=JaxKernels()), scope:
                return function(*given)

        static = [1 + number for number in constants]
        self._compiled = jax.jit(of_weights, static_argnums=static, donate_argnums=[1] if replaces else [])

    def __call__(self, *given: Any) -> Any:
        """Returns the results, arrays of JAX."""
        self._log_new(given)
        return self._compiled(self._weights(), *given)

    def _weights(self) -> list[jax.Array]:
        """Returns the current weights in the copy that this thread uses."""
        values = [variable.value for variable in self._variables]
        rows, number = rows_of(values[0]) if values else [], current_copy.get()
        if len(rows) < 2:
            return values
        known = self._copies.get(number)
        if known is None or any(old is not new for old, new in zip(known[0], values, strict=True)):
            known = self._copies[number] = (values, [_copy(value, rows[number]) for value in values])
        return known[1]

    def _log_new(self, given: Sequence[Any]) -> None:
        shapes = [
            str(x) if number in self._constants else [np.shape(leaf) for leaf in jax.tree.leaves(x)]
            for number, x in enumerate(given)
        ]
        with self._lock:
            if (key := str(shapes)) in self._compiled_for:
                return
            self._compiled_for.add(key)
        log.debug("XLA compiles a program: %s, shapes %s", self._name, key)


class JaxFunction(CompiledFunction):
    """A function of batches that are padded to one of a few sizes; see `Backend.compile`."""

    def __init__(self, function: Callable, signature: Sequence[Any], model: SequenceModel | None):
        constants = [number for number, spec in enumerate(signature) if getattr(spec, "shape", None) == ()]
        self._program = Program(model, function, getattr(function, "__name__", "a batch"), constants)
        self._signature, self._constants = list(signature), constants

    def __call__(self, *tensors: Any) -> Any:
        """Takes and returns arrays; results have as many rows as the arguments."""
        rows = next(np.shape(x)[0] for x in jax.tree.leaves(tensors) if np.ndim(x))
        given = jax.tree.map(_padded, list(tensors), self._signature)
        size = padded_rows(rows)
        return jax.tree.map(
            lambda x: np.asarray(x)[:rows] if np.ndim(x) and len(x) == size else np.asarray(x), self._program(*given)
        )


def _padded(value: Any, spec: keras.KerasTensor) -> Any:
    if not spec.shape:
        return value
    array = np.asarray(value)
    sizes = [
        own if known is not None else (padded_length(own) if axis else padded_rows(own))
        for axis, (own, known) in enumerate(zip(array.shape, spec.shape, strict=True))
    ]
    return pad_to(array, sizes)


# === The cost of a forward pass, counted from the operations that JAX traces ===

_FREE = frozenset({"reshape", "squeeze", "broadcast_in_dim", "slice", "convert_element_type", "iota", "jit"})
"""Operations whose outputs need no memory: XLA fuses them into others."""
_LOOPS = frozenset({"while", "scan"})


def forward_cost(model: SequenceModel, batch: Batch) -> ComputeCost:
    """Returns the cost of all logits of a batch."""
    with in_mode(blockwise_attention=False):
        program = _traced(lambda features, seed: model(features, seed=seed), model, batch)
    flops, loops = 0, False
    for operation, is_in_loop in _operations(program):
        found = _operation_flops(operation)
        flops, loops = flops + (0 if is_in_loop else found), loops or (is_in_loop and found > 0)
    return ComputeCost(flops, loops)


def forward_bytes(model: SequenceModel, batch: Batch) -> int:
    """Returns the total bytes of the intermediate arrays of a batch's training loss."""
    program = _traced(lambda f, seed: model.loss_sum(model.body(f, seed=seed), f["targets"]), model, batch)
    return sum(
        math.prod(output.aval.shape) * output.aval.dtype.itemsize
        for operation, _ in _operations(program)
        if operation.primitive.name not in _FREE
        for output in operation.outvars
    )


def _traced(forward, model: SequenceModel, batch: Batch):
    variables = model.variables
    shapes = {name: jax.ShapeDtypeStruct(array.shape, array.dtype) for name, array in batch.items()}

    def function(values, features):
        scope = keras.StatelessScope(
            state_mapping=list(zip(variables, values, strict=True)), initialize_variables=False
        )
        with scope, jax.default_prng_impl("rbg"):
            return jax.tree.leaves(forward(features, jnp.zeros((4,), "uint32")))

    values = [jax.ShapeDtypeStruct(tuple(v.shape), v.dtype) for v in variables]
    return jax.make_jaxpr(function)(values, shapes).jaxpr


def _operations(program, is_in_loop: bool = False) -> Iterator[tuple]:
    """Yields the operations of a program and of nested ones, and whether a loop repeats them."""
    for operation in program.eqns:
        yield operation, is_in_loop
        inside = is_in_loop or operation.primitive.name in _LOOPS
        for part in jax.tree.leaves(list(operation.params.values()), is_leaf=lambda x: hasattr(x, "eqns")):
            inner = getattr(part, "jaxpr", part)
            if hasattr(inner, "eqns"):
                yield from _operations(inner, inside)


def _operation_flops(operation) -> int:
    out = math.prod(operation.outvars[0].aval.shape) if operation.outvars else 0
    if operation.primitive.name == "dot_general":
        (contracted, _), _ = operation.params["dimension_numbers"]
        return 2 * out * math.prod(operation.invars[0].aval.shape[axis] for axis in contracted)
    if operation.primitive.name == "conv_general_dilated":
        kernel = operation.invars[1].aval.shape
        outputs = kernel[operation.params["dimension_numbers"].rhs_spec[0]]
        return 2 * out * math.prod(kernel) // outputs
    return 0
