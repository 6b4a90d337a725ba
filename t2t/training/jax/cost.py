"""The cost of a forward pass, counted from the operations that JAX traces."""

import math
from collections.abc import Iterator

import jax
import jax.numpy as jnp
import keras

from t2t.layers.mode import in_mode
from t2t.models.base import SequenceModel
from t2t.training.engine import Batch, ForwardCost

_FREE = frozenset({"reshape", "squeeze", "broadcast_in_dim", "slice", "convert_element_type", "iota", "jit"})
"""Operations whose outputs need no memory: XLA fuses them into others."""
_LOOPS = frozenset({"while", "scan"})


def forward_cost(model: SequenceModel, batch: Batch) -> ForwardCost:
    """Returns the cost of all logits of a batch."""
    with in_mode(blockwise_attention=False):
        program = _program(lambda features, seed: model(features, seed=seed), model, batch)
    flops, loops = 0, False
    for operation, is_in_loop in _operations(program):
        found = _operation_flops(operation)
        flops, loops = flops + (0 if is_in_loop else found), loops or (is_in_loop and found > 0)
    return ForwardCost(flops, loops)


def forward_bytes(model: SequenceModel, batch: Batch) -> int:
    """Returns the total bytes of the intermediate arrays of a batch's training loss."""
    program = _program(lambda f, seed: model.loss_sum(model.body(f, seed=seed), f["targets"]), model, batch)
    return sum(
        math.prod(output.aval.shape) * output.aval.dtype.itemsize
        for operation, _ in _operations(program)
        if operation.primitive.name not in _FREE
        for output in operation.outvars
    )


def _program(forward, model: SequenceModel, batch: Batch):
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
