"""The devices that TensorFlow trains on: visible GPUs of one machine or several, or replicas on the processor.

Legend: W workers, N numbers of each.
"""

import contextlib
import functools
import re
from collections.abc import Sequence
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from t2t.backends.base import Devices
from t2t.backends.cluster import ALONE, Cluster, joining
from t2t.backends.workers import Workers
from t2t.errors import UserError


class StrategyDevices(Devices):
    """The devices of a `tf.distribute.Strategy`."""

    def __init__(self, strategy: tf.distribute.Strategy):
        self.strategy, self.replicas, self.own = strategy, strategy.num_replicas_in_sync, _own_replicas(strategy)
        self.names = [device.split("/device:")[-1] for device in strategy.extended.worker_devices]

    def scope(self) -> contextlib.AbstractContextManager:
        """Returns the scope of the strategy."""
        return self.strategy.scope()

    def spread(self, variables: Sequence[keras.Variable]) -> None:
        """Does nothing: variables were created on all devices, and every assignment reaches all."""


def _own_replicas(strategy: tf.distribute.Strategy) -> range:
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
            f"{len(gpus)} GPUs are visible",
            "ask for at most that many, or 0 for all",
            option="worker_gpu",
            value=worker_gpu,
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
        raise UserError(
            "of several workers, each has one replica on the processor",
            "leave it out",
            option="worker_cpu",
            value=worker_cpu,
        )
    if worker_gpu > len(gpus) and not worker_cpu:
        raise UserError(
            f"{cluster.describe(cluster.index)} has {len(gpus)} GPUs",
            "ask for that many at most",
            option="worker_gpu",
            value=worker_gpu,
        )
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
        raise UserError(
            "TensorFlow has started", f"train in a process of its own ({error})", option="worker_hosts"
        ) from error


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
            f"this process has started TensorFlow with {len(cpus)}",
            "ask in a process of its own",
            option="worker_cpu",
            value=count,
        )
    return cpus


class TensorFlowWorkers(Workers):
    """Workers that communicate by the collective operations of a strategy."""

    def __init__(self, strategy: tf.distribute.Strategy, cluster: Cluster = ALONE):
        super().__init__(cluster)
        self._strategy = strategy

    def _gather(self, own_N: np.ndarray) -> np.ndarray:
        rows_WN = np.zeros((len(self.cluster.addresses), len(own_N)), np.int64)
        rows_WN[self.cluster.index] = own_N
        return self._strategy.experimental_local_results(self._summed(tf.constant(rows_WN)))[0].numpy()

    def _lost_message(self, error: Exception) -> str | None:
        if not isinstance(error, tf.errors.OpError) or "ollective" not in error.message:
            return None
        return error.message

    def _named_in(self, message: str) -> set[int]:
        return {int(number) for number in re.findall(r"/task:(\d+)", message)}

    @tf.function(autograph=False, reduce_retracing=True)
    def _summed(self, tensor):
        """Returns the sum of the workers' tensors, on each replica."""

        def replica():
            context = tf.distribute.get_replica_context()
            number = tf.get_static_value(tf.convert_to_tensor(context.replica_id_in_sync_group))
            counts = number % len(self._strategy.extended.worker_devices) == 0  # the first of its worker
            return context.all_reduce(
                tf.distribute.ReduceOp.SUM, tf.identity(tensor) if counts else tf.zeros_like(tensor)
            )

        return self._strategy.run(replica)

    def _send(self, variables: Sequence[Any]) -> None:
        variables = [variable.value if isinstance(variable, keras.Variable) else variable for variable in variables]

        def replica():
            context = tf.distribute.get_replica_context()
            is_source = tf.get_static_value(tf.convert_to_tensor(context.replica_id_in_sync_group)) == 0
            values = [v.read_value() if is_source else tf.zeros_like(v) for v in variables]
            return [context.all_reduce(tf.distribute.ReduceOp.SUM, value) for value in values]

        @tf.function(autograph=False)
        def send():
            sent = self._strategy.run(replica)
            for variable, value in zip(variables, sent, strict=True):
                self._strategy.extended.update(variable, lambda v, new: v.assign(new), args=(value,), group=False)

        send()
