"""The devices that JAX trains on: accelerators of one process, or replicas on the processor."""

import contextlib

import jax
import numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec

from t2t.errors import UserError
from t2t.training.cluster import ALONE, Cluster
from t2t.training.engine import Devices

REPLICA = "replica"
"""The axis along which batches are split; weights are the same all along it."""


class MeshDevices(Devices):
    """Devices of this process, in a row."""

    def __init__(self, devices: list[jax.Device]):
        self.mesh = Mesh(np.array(devices), (REPLICA,))
        self.names = [f"{device.platform.upper()}:{device.id}" for device in devices]
        self.replicas = len(devices)

    @property
    def same(self) -> NamedSharding:
        """How what is the same on all devices lies on them."""
        return NamedSharding(self.mesh, PartitionSpec())

    @property
    def split(self) -> NamedSharding:
        """How what has a part for each device, along its first axis, lies on them."""
        return NamedSharding(self.mesh, PartitionSpec(REPLICA))

    def scope(self) -> contextlib.AbstractContextManager:
        """Returns a context that does nothing: variables are made on one device, and copied by the first update."""
        return contextlib.nullcontext()


def build_devices(worker_gpu: int = 0, worker_cpu: int = 0, cluster: Cluster = ALONE) -> MeshDevices:
    """Returns the devices, see `TrainingEngine.devices`."""
    if cluster is not ALONE:
        raise UserError(
            "KERAS_BACKEND=jax: several workers train together on TensorFlow alone; leave out --worker_hosts, "
            "--worker_index and TF_CONFIG, or set KERAS_BACKEND=tensorflow"
        )
    if worker_cpu:
        with contextlib.suppress(RuntimeError):  # JAX has started; what it started with is checked below
            jax.config.update("jax_num_cpu_devices", max(worker_cpu, jax.config.jax_num_cpu_devices))
    if worker_cpu > 1:
        # Two updates at a time would wait for each other on few cores.
        jax.config.update("jax_cpu_enable_async_dispatch", False)
    local = jax.local_devices(backend="cpu") if worker_cpu else jax.local_devices()
    are_cpus = local[0].platform == "cpu"
    if worker_cpu > len(local):
        raise UserError(
            f"--worker_cpu={worker_cpu}: this process has started JAX with {len(local)}; ask in a process of its own"
        )
    found = 0 if are_cpus else len(local)
    if worker_gpu > found and not worker_cpu:
        raise UserError(
            f"--worker_gpu={worker_gpu}: {found} accelerators are visible to JAX; ask for at most that many, or 0 for "
            f"all"
        )
    count = worker_cpu or (1 if are_cpus else worker_gpu or found)
    return MeshDevices(local[:count])
