"""The devices that TensorFlow trains on: visible GPUs of one machine or several, or replicas on the processor."""

import contextlib
import functools
from collections.abc import Sequence

import keras
import tensorflow as tf

from t2t.errors import UserError
from t2t.training.cluster import ALONE, Cluster, joining
from t2t.training.engine import Devices


class StrategyDevices(Devices):
    """The devices of a `tf.distribute.Strategy`."""

    def __init__(self, strategy: tf.distribute.Strategy):
        self.strategy, self.replicas = strategy, strategy.num_replicas_in_sync
        self.names = [device.split("/device:")[-1] for device in strategy.extended.worker_devices]

    def scope(self) -> contextlib.AbstractContextManager:
        """Returns the scope of the strategy."""
        return self.strategy.scope()

    def spread(self, variables: Sequence[keras.Variable]) -> None:
        """Does nothing: variables were created on all devices, and every assignment reaches all."""


def own_replicas(strategy: tf.distribute.Strategy) -> range:
    """Returns the indices of the replicas in this process."""
    count = len(strategy.extended.worker_devices)
    resolver = strategy.cluster_resolver
    first = count * resolver.task_id if resolver is not None and strategy.num_replicas_in_sync > count else 0
    return range(first, first + count)


def build_strategy(worker_gpu: int = 0, worker_cpu: int = 0, cluster: Cluster = ALONE) -> tf.distribute.Strategy:
    """Returns a MirroredStrategy, or a MultiWorkerMirroredStrategy where several processes train together.

    Args:
        worker_gpu: number of GPUs; 0 = all visible ones, or one processor replica where there is none.
        worker_cpu: number of replicas on the processor instead; for tests and for trying out distribution.
        cluster: the processes; with several, waits until all have started.

    Raises:
        UserError: more GPUs than are visible, more replicas than TensorFlow has started with, or several replicas on
            the processor of each of several workers.
    """
    if cluster is not ALONE:
        return _across_workers(worker_gpu, worker_cpu, cluster)
    gpus = tf.config.list_logical_devices("GPU") if not worker_cpu else []
    if worker_gpu > len(gpus) and not worker_cpu:
        raise UserError(
            f"--worker_gpu={worker_gpu}: {len(gpus)} GPUs are visible; ask for at most that many, or 0 for all"
        )
    if gpus:
        return _mirrored(tuple(gpu.name for gpu in gpus[: worker_gpu or len(gpus)]))
    count = max(worker_cpu, 1)
    return _mirrored(tuple(cpu.name for cpu in _logical_cpus(count)[:count]))


@functools.cache
def _mirrored(devices: tuple[str, ...]) -> tf.distribute.MirroredStrategy:
    # Each new strategy numbers its reductions from the same start, and TensorFlow refuses a number that another model
    # of the process has used for other shapes; so runs on the same devices share one.
    return tf.distribute.MirroredStrategy(devices)


@functools.cache
def _across_workers(worker_gpu: int, worker_cpu: int, cluster: Cluster) -> tf.distribute.MultiWorkerMirroredStrategy:
    gpus = [] if worker_cpu else tf.config.list_physical_devices("GPU")
    if worker_cpu > 1:
        raise UserError(f"--worker_cpu={worker_cpu}: of several workers, each has one replica on the processor")
    if worker_gpu > len(gpus) and not worker_cpu:
        raise UserError(f"--worker_gpu={worker_gpu}: {cluster.describe(cluster.index)} has {len(gpus)} GPUs")
    try:
        tf.config.set_visible_devices(gpus[: worker_gpu or len(gpus)], "GPU")
        resolver = tf.distribute.cluster_resolver.SimpleClusterResolver(
            tf.train.ClusterSpec({"worker": list(cluster.addresses)}),
            task_type="worker",
            task_id=cluster.index,
            rpc_layer="grpc",
            num_accelerators={"GPU": worker_gpu or len(gpus)},
        )
        with joining(cluster):
            return tf.distribute.MultiWorkerMirroredStrategy(resolver)
    except RuntimeError as error:
        raise UserError(f"--worker_hosts: TensorFlow has started; train in a process of its own ({error})") from error


def _logical_cpus(count: int) -> list:
    physical = tf.config.list_physical_devices("CPU")[0]
    if count > 1:
        try:
            configured = tf.config.get_logical_device_configuration(physical) or []
            if len(configured) < count:
                tf.config.set_logical_device_configuration(physical, [tf.config.LogicalDeviceConfiguration()] * count)
        except RuntimeError:
            pass  # TensorFlow has started; what it started with is checked below
    cpus = tf.config.list_logical_devices("CPU")
    if len(cpus) < count:
        raise UserError(
            f"--worker_cpu={count}: this process has started TensorFlow with {len(cpus)}; ask in a process of its own"
        )
    return cpus
