"""The devices that JAX trains on: accelerators, of one process or of several, or replicas on the processor.

Legend: W workers, N numbers of each.
"""

import atexit
import contextlib
import functools
import os
import re
import signal
import sys
from collections.abc import Iterator, Sequence
from typing import Any, TypeVar

import jax
import keras
import numpy as np
from jax.experimental.multihost_utils import broadcast_one_to_all
from jax.sharding import Mesh, NamedSharding, PartitionSpec

from t2t.backends.base import Devices
from t2t.backends.cluster import ALONE, Cluster, joining
from t2t.backends.workers import Workers
from t2t.errors import MachineError, UserError, one_line

REPLICA = "replica"
"""The axis of a mesh along which batches are split; weights are the same all along it."""

SHARD = "shard"
"""The axis along which the weights of a replica are split."""

Arrays = TypeVar("Arrays")
"""An array, or a tree of them."""


def name_of(device: jax.Device) -> str:
    """Returns the name of a device of this process, e.g. `GPU:0`."""
    return f"{device.platform.upper()}:{device.local_hardware_id}"


class MeshDevices(Devices):
    """A mesh of devices, (replicas, shards).

    Args:
        devices: of all workers in their order, the same number of each.
        shards: devices of a replica.
    """

    def __init__(self, devices: list[jax.Device], shards: int = 1):
        rows = np.array(devices).reshape(-1, shards)
        numbers = [number for number, row in enumerate(rows) if row[0].process_index == jax.process_index()]
        self.mesh, self._local = Mesh(rows, (REPLICA, SHARD)), Mesh(rows[numbers], (REPLICA, SHARD))
        self.replicas, self.own, self._shards = len(rows), range(numbers[0], numbers[-1] + 1), shards
        self._are_all_own = len(self.own) == self.replicas
        self.split_layout = NamedSharding(self.mesh, PartitionSpec(REPLICA))
        self.names = [name_of(one) for one in rows[numbers].flat]

    def scope(self) -> contextlib.AbstractContextManager:
        """Returns a context in which variables are created on one device, or, sharded, in host memory.

        The first update copies them to all devices. Sharded variables may be too large for one device.
        """
        if self._shards == 1:
            return contextlib.nullcontext()
        return jax.default_device(jax.local_devices(backend="cpu")[0])

    def split(self, own: Arrays) -> Arrays:
        """Returns arrays, or a tree of them, split over replicas along axis 0; `own` has the parts of this process."""
        if self._are_all_own:
            return jax.device_put(own, self.split_layout)
        return jax.tree.map(functools.partial(jax.make_array_from_process_local_data, self.split_layout), own)

    def layout(self, shape: tuple[int, ...]) -> NamedSharding:
        """Returns the sharding of a state variable: each replica has a copy.

        Within a replica, variables of two or more axes are split along the longest axis divisible by the shards (ties:
        the last); XLA partitions their products. Optimizer slots are split as their weights are.
        """
        axes = [axis for axis, size in enumerate(shape) if size % self._shards == 0]
        if self._shards == 1 or len(shape) < 2 or not axes:
            return NamedSharding(self.mesh, PartitionSpec())
        longest = max(axes, key=lambda axis: (shape[axis], axis))
        return NamedSharding(self.mesh, PartitionSpec(*[None] * longest, SHARD))

    def copy_to_all(self, value: Any) -> jax.Array:
        """Returns a variable's value copied to all devices by its `layout`; all workers must pass the same value."""
        array = np.asarray(value)
        return jax.make_array_from_callback(array.shape, self.layout(array.shape), lambda part: array[part])

    def own_copies(self, value: jax.Array) -> jax.Array:
        """Returns this process's part of a value that `copy_to_all` returned."""
        if self._are_all_own:
            return value
        if self._local.size == 1:
            return value.addressable_data(0)
        parts = {shard.device: shard.data for shard in value.addressable_shards}
        layout = NamedSharding(self._local, self.layout(value.shape).spec)
        own = [parts[device] for device in self._local.devices.flat]
        return jax.make_array_from_single_device_arrays(value.shape, layout, own)

    def spread(self, variables: Sequence[keras.Variable]) -> None:
        """See the base class."""
        for variable in variables:
            variable.assign(self.own_copies(self.copy_to_all(variable.value)))


def build_devices(
    worker_gpu: int = 0, worker_cpu: int = 0, cluster: Cluster = ALONE, weight_shards: int = 1
) -> MeshDevices:
    """Returns the devices, see `Backend.devices`."""
    if worker_cpu:
        with contextlib.suppress(RuntimeError):  # JAX has started; what it started with is checked below
            jax.config.update("jax_num_cpu_devices", max(worker_cpu, jax.config.jax_num_cpu_devices))
    if worker_cpu > 1 or cluster is not ALONE:
        # On few cores, two updates at a time would wait for each other.
        jax.config.update("jax_cpu_enable_async_dispatch", False)
    if cluster is not ALONE:
        connect(cluster)
    local = jax.local_devices(backend="cpu") if worker_cpu else jax.local_devices()
    are_cpus = local[0].platform == "cpu"
    if worker_cpu > len(local):
        raise UserError(
            f"this process has started JAX with {len(local)}",
            "ask in a process of its own",
            option="worker_cpu",
            value=worker_cpu,
        )
    found = 0 if are_cpus else len(local)
    if worker_gpu > found and not worker_cpu:
        raise UserError(
            f"{found} accelerators are visible to JAX",
            "ask for at most that many, or 0 for all",
            option="worker_gpu",
            value=worker_gpu,
        )
    count = worker_cpu or (1 if are_cpus else worker_gpu or found)
    if count % weight_shards:
        raise UserError(
            f"{count} devices train here",
            "ask for a number that divides this one, or for other devices with --worker_gpu or --worker_cpu",
            option="weight_shards",
            value=weight_shards,
        )
    return MeshDevices(_of_all_workers(local[:count], cluster), weight_shards)


def _of_all_workers(own: list[jax.Device], cluster: Cluster) -> list[jax.Device]:
    """Returns the devices of all workers; raises UserError if another worker has a different number than this one."""
    if cluster is ALONE:
        return own
    counts_W = gather(np.array([len(own)]))[:, 0]
    for worker, count in enumerate(counts_W.tolist()):
        if count != len(own):
            raise UserError(
                f"{cluster.describe(worker)} trains with {count} devices, {cluster.describe(cluster.index)} with "
                f"{len(own)}",
                "JAX needs as many of each: start all with the same --worker_gpu",
            )
    of_all = [jax.local_devices(worker, own[0].client) for worker in range(len(counts_W))]
    return [device for devices in of_all for device in devices[: len(own)]]


# === Workers ===

_WAIT_S = 3600
"""Seconds that a worker waits for the others: the chief may have data to generate first."""

_LAST_S = 7 * 24 * 3600
"""Seconds that a worker waits at its end: the chief may decode."""

_WORKER = "worker"

_LOST = re.compile(r"Gloo|NCCL|oordination service|eartbeat")
"""Found in the messages of errors after another worker has ended."""


def connect(cluster: Cluster) -> None:
    """Waits until all workers have started; from then on, JAX knows the devices of all.

    Raises:
        UserError: JAX has already started.
        MachineError: the chief cannot listen at its address.
    """
    if jax.distributed.is_initialized():
        return
    try:
        with joining(cluster):
            jax.distributed.initialize(
                cluster.addresses[0], len(cluster.addresses), cluster.index,
                initialization_timeout=_WAIT_S, shutdown_timeout_seconds=_LAST_S,
            )  # fmt: skip
    except jax.errors.JaxRuntimeError as error:
        raise MachineError(
            f"{cluster.describe(cluster.index)} cannot join the others ({one_line(str(error)):.200})",
            f"see that no other program listens at {cluster.addresses[0]}",
        ) from error
    except RuntimeError as error:
        raise UserError("JAX has started", f"train in a process of its own ({error})", option="worker_hosts") from error


def gather(own_N: np.ndarray) -> np.ndarray:
    """Returns the numbers of every worker, (W, N), sent between CPUs; all workers must pass equally many."""
    mesh, together = _all_processors()
    words = np.ascontiguousarray(own_N)[None].view(np.uint32)  # by default JAX has no 64-bit integers
    split = jax.make_array_from_process_local_data(NamedSharding(mesh, PartitionSpec(_WORKER)), words)
    return np.asarray(together(split)).view(own_N.dtype)


@functools.cache
def _all_processors():
    """Returns a mesh of one CPU device of each worker, and a function that copies a split array to all of them."""
    first = {device.process_index: device for device in reversed(jax.devices("cpu"))}
    mesh = Mesh(np.array([first[worker] for worker in sorted(first)]), (_WORKER,))
    return mesh, jax.jit(lambda array: array, out_shardings=NamedSharding(mesh, PartitionSpec()))


class JaxWorkers(Workers):
    """Workers that communicate by arrays that are split over all of them."""

    @contextlib.contextmanager
    def guard(self) -> Iterator[None]:
        """See the base class. After any exception, this process exits without waiting for the others.

        At exit, JAX would wait for the other workers, which wait for this one and notice only its end.
        """
        try:
            with super().guard():
                yield
        except BaseException as error:
            if self.are_several:
                status = 128 + signal.SIGINT if isinstance(error, KeyboardInterrupt) else 1
                atexit.register(_leave, getattr(error, "exit_status", status))
            raise

    def _gather(self, own_N: np.ndarray) -> np.ndarray:
        return gather(own_N)

    def _send(self, variables: Sequence[Any]) -> None:
        sent = broadcast_one_to_all([np.asarray(variable.value) for variable in variables])
        for variable, value in zip(variables, sent, strict=True):
            variable.assign(value)

    def _lost_message(self, error: Exception) -> str | None:
        is_of_jax = isinstance(error, (ValueError, jax.errors.JaxRuntimeError))
        return str(error) if is_of_jax and _LOST.search(str(error)) else None

    def _named_in(self, message: str) -> set[int]:
        return {int(number) for number in re.findall(r"[Tt]ask:? ?(\d+)", message)}


def _leave(status: int) -> None:
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(status)
