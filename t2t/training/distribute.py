"""The devices of training: visible GPUs, or replicas on the processor."""

import functools

import tensorflow as tf

from t2t.errors import UserError


def build_strategy(worker_gpu: int = 0, worker_cpu: int = 0) -> tf.distribute.MirroredStrategy:
    """Returns a MirroredStrategy.

    Args:
        worker_gpu: number of GPUs; 0 = all visible ones, or one processor replica where there is none.
        worker_cpu: number of replicas on the processor instead; for tests and for trying out distribution.

    Raises:
        UserError: more GPUs than there are, or replicas asked for after TensorFlow has started with fewer.
    """
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
