"""Copies of a model's weights on several devices; each thread uses one copy."""

import contextlib
import contextvars
from collections.abc import Iterator, Sequence

import jax
import keras
import numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec

from t2t.layers.mode import held
from t2t.models.base import SequenceModel

_SHARD = "shard"
"""The axis of a mesh along which the devices hold the parts of a copy; the axis before it is that of the copies."""

_current: contextvars.ContextVar[int] = contextvars.ContextVar("device", default=0)
"""Index of the copy that this thread uses, which lies on one device or is split over several."""


def devices_of(model: SequenceModel) -> list[str]:
    """Returns a name for each copy of a model's weights, after its devices; `[""]` if there is one copy."""
    rows = _rows(model.variables[0].value)
    return [",".join(map(str, row)) for row in rows] if len(rows) > 1 else [""]


@contextlib.contextmanager
def use_device(number: int) -> Iterator[None]:
    """Context in which functions that this thread calls read the copy of this number."""
    with held(_current, number):
        yield


class Copies:
    """The weights of a model; each thread gets the copy that it uses, see `use_device`."""

    def __init__(self, variables: Sequence[keras.Variable]):
        self._variables = variables
        self._known: dict[int, tuple[list[jax.Array], list[jax.Array]]] = {}

    def values(self) -> list[jax.Array]:
        """Returns the current values in the copy that this thread uses."""
        values = [variable.value for variable in self._variables]
        rows, number = _rows(values[0]), _current.get()
        if len(rows) == 1:
            return values
        known = self._known.get(number)
        if known is None or any(old is not new for old, new in zip(known[0], values, strict=True)):
            known = self._known[number] = (values, [_copy(value, rows[number]) for value in values])
        return known[1]


def _rows(value: jax.Array) -> list[list[jax.Device]]:
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
