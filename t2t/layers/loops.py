"""Loops that hold the memory of only one iteration at a time, on every backend."""

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any

import keras
from keras import ops

from t2t.layers.dropout import seed_of_step
from t2t.layers.mode import Costs, current_mode, in_mode
from t2t.layers.tensors import Size, Structure, Tensor
from t2t.registry.overrides import is_of_plugin


def fold(first: Size, last: Size, step: Callable, start: tuple, most: int | None = None) -> tuple:
    """Returns the last state of a loop of `state = step(i, *state)`, i from `first` to before `last`, int or () int32.

    The state has at least one tensor; shapes and types stay the same. `most` is a static upper bound of `last`: within
    a mode of `counted_loops` the loop runs up to it, so iterations from `last` on must change nothing.
    """
    if most is not None and current_mode().counted_loops:
        return tuple(ops.fori_loop(first, most, lambda i, state: tuple(step(i, *state)), tuple(start)))

    def loop_body(i, *state):
        # TensorFlow runs ten iterations at once if none depends on the one before, with ten times the memory.
        # Nothing is larger than infinity, so this adds 0, but only once the previous state is computed.
        after = ops.cast(ops.cast(ops.reshape(state[0], (-1,))[0], "float32") > float("inf"), "int32")
        return i + 1, *step(i + after, *state)

    return tuple(ops.while_loop(lambda i, *_: i < last, loop_body, (ops.cast(first, "int32"), *start))[1:])


def stack(count: Size, function: Callable, shapes: tuple) -> tuple:
    """Returns the results of `function(i)`, a tuple, for i from 0 to before `count`, each stacked along a new axis 0.

    `shapes` holds the shape and dtype of each result.
    """

    def step(i, *results):
        # Results move up by one, so that in the end the first is first: a write that every backend supports.
        return tuple(
            ops.concatenate([old[1:], new[None]], axis=0) for old, new in zip(results, function(i), strict=True)
        )

    return fold(0, count, step, tuple(ops.zeros((count, *shape), dtype) for shape, dtype in shapes))


def split_blocks(x: Tensor, most: int, axis: int = 0) -> Tensor:
    """Splits (..., N, ...) into the fewest equal blocks of at most `most` positions, (G, ..., R, ...).

    Zeros fill the last block. N is at least 1 and may be unknown when the program is built.
    """
    before, count, after = ops.shape(x)[:axis], ops.shape(x)[axis], ops.shape(x)[axis + 1 :]
    blocks = (count + most - 1) // most
    rows = (count + blocks - 1) // blocks
    missing = ops.zeros((*before, blocks * rows - count, *after), x.dtype)
    split = ops.reshape(ops.concatenate([x, missing], axis=axis), (*before, blocks, rows, *after))
    return ops.moveaxis(split, axis, 0) if axis else split


def scan(step: Callable, start: Structure, given: tuple, reverse: bool = False) -> tuple[Structure, Structure]:
    """Returns the last state of a recurrence, and its structure with (T, ...) for the states after each position.

    It is differentiable, and T may be unknown when the program is built.

    Args:
        step: `step(state, given of this position) -> state`, of the same shapes and types; `given` as a tuple.
        start: the first state, any structure of tensors.
        given: tensors (T, ..., C) of one type that differ only in their last axis.
        reverse: whether to start at position T - 1.
    """
    # As one tensor: with TensorFlow, Keras's scan takes several only if their length is static.
    ends = [sum(x.shape[-1] for x in given[: i + 1]) for i in range(len(given) - 1)]
    whole = ops.concatenate(given, axis=-1) if ends else given[0]

    def step_and_emit(state, part):
        state = step(state, tuple(ops.split(part, ends, axis=-1)) if ends else (part,))
        return state, state

    mode = current_mode()
    if mode.record is not None and whole.shape[0] is not None:
        return _scan_in_python(step_and_emit, start, whole, reverse)
    scan_states = _scan_tensors if mode.for_converters else ops.scan
    return scan_states(step_and_emit, start, whole, reverse=reverse)


def _scan_in_python(step: Callable, start: Structure, given: Tensor, reverse: bool) -> tuple[Structure, Structure]:
    """Does the same as `keras.ops.scan` step by step; a loop of JAX calls a step once, and records no values."""
    state, states = start, []
    for i in range(given.shape[0])[:: -1 if reverse else 1]:
        state = step(state, given[i])[0]
        states.append(state)
    return state, keras.tree.map_structure(lambda *parts: ops.stack(parts), *states[:: -1 if reverse else 1])


def _scan_tensors(step: Callable, start: Structure, given: Tensor, reverse: bool) -> tuple[Structure, Structure]:
    """Does the same as `keras.ops.scan` without lists of tensors; it copies all states at every position."""
    leaves, count = keras.tree.flatten(start), ops.shape(given)[0]

    def step_leaves(i, *leaves):
        states, kept = leaves[: len(leaves) // 2], leaves[len(leaves) // 2 :]
        part = ops.take(given, count - 1 - i if reverse else i, axis=0)
        after = keras.tree.flatten(step(keras.tree.pack_sequence_as(start, states), part)[0])
        # States move by one, so that in the end each is at its position.
        moved = [
            ops.concatenate([new[None], old[:-1]] if reverse else [old[1:], new[None]], axis=0)
            for new, old in zip(after, kept, strict=True)
        ]
        return *after, *moved

    empty = [ops.zeros((count, *ops.shape(leaf)), leaf.dtype) for leaf in leaves]
    found = fold(0, count, step_leaves, (*leaves, *empty))
    last, states = found[: len(leaves)], found[len(leaves) :]
    return keras.tree.pack_sequence_as(start, last), keras.tree.pack_sequence_as(start, states)


def run_layers(
    layers: Sequence[keras.layers.Layer],
    call: Callable,
    x: Tensor,
    given: Sequence[Structure] | None = None,
    seed: Any = None,
    cache: Any = None,
) -> Tensor:
    """Returns `x` after `x = call(layer, x, own, seed)` for all layers, where `own` is what is given to the layer.

    In a mode with `layer_loops`, layers of the same class and settings become one loop over their stacked weights. Each
    draws its dropout masks by its number, see `seed_of_step`. With a cache or a record of attention, which store values
    by the path of each layer, layers are computed one by one.
    """
    mode = current_mode()
    if mode.layer_loops and cache is None and mode.record is None and _are_alike(layers):
        return _scan_layers(layers, call, x, given, seed)
    owns: Sequence[Any] = given or [None] * len(layers)
    for layer, own in zip(layers, owns, strict=True):
        x = call(layer, x, own, seed)
    return x


def _scan_layers(layers, call, x, given, seed):
    costs = current_mode().costs or Costs()

    def step(x, each):
        i, weights, own = each
        added = dataclasses.replace(costs, per_target=[], summed=[])
        with in_mode(costs=added), _WeightsOfLayer(list(zip(layers[0].variables, weights, strict=True))):
            x = call(layers[0], x, own, seed_of_step(seed, i))
        return x, (added.per_target, added.summed)

    weights = [ops.stack([v.value for v in same]) for same in zip(*(layer.variables for layer in layers), strict=True)]
    own = None if given is None else keras.tree.map_structure(lambda *same: ops.stack(same), *given)
    x, (per_target, summed) = ops.scan(step, x, (ops.arange(len(layers)), weights, own))
    costs.per_target.extend(ops.sum(cost) for cost in per_target)
    costs.summed.extend(ops.sum(cost) for cost in summed)
    return x


def _are_alike(layers: Sequence[keras.layers.Layer]) -> bool:
    """Returns whether layers differ only in the values of their weights, and only read them.

    Layers of this package that have equal weights compute the same. Those of a plug-in may depend on their number.
    """

    def kind(layer):
        weights = ((v.path.removeprefix(layer.path), tuple(v.shape), v.dtype, v.trainable) for v in layer.variables)
        return (type(layer), *weights)

    if len(layers) < 2 or is_of_plugin(type(layers[0])) or len(set(map(kind, layers))) > 1:
        return False
    return all(variable.trainable for variable in layers[0].variables)


class _WeightsOfLayer(keras.StatelessScope):
    """A scope in which a layer's weights have other values; all others have those of the scope around it."""

    def __init__(self, state_mapping):
        super().__init__(state_mapping=state_mapping, initialize_variables=False)

    def get_current_value(self, ref):
        """Returns the value of a variable."""
        found = super().get_current_value(ref)
        return found if found is not None or self.original_scope is None else self.original_scope.get_current_value(ref)
