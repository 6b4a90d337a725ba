"""Our side, on TensorFlow or JAX: the update of `t2t-trainer` on one device, with batches that are in memory."""

import keras
from keras import ops

from benchmarks.gpu.model import PRECISION, SEED, batch, build_model, flops, matrix_rate, side_for, turn_seconds
from benchmarks.harness.child import peak_memory_mb, read_job, versions, write_result
from t2t.backends import backend
from t2t.hparams.groups import OptimizerHParams
from t2t.training.optimizers import build_optimizer
from t2t.training.step import UpdateStep


def main():
    """Writes the times of updates and the peak matrix rate of the device."""
    job = read_job()
    on_gpu = backend().on_accelerators()
    backend().apply_precision(PRECISION)
    devices = backend().devices(worker_gpu=int(on_gpu))
    with devices.scope():
        model, optimizer = build_model(job), build_optimizer(OptimizerHParams())
    step, features, last = UpdateStep(model, optimizer, devices, run_seed=SEED, **job["rules"]), batch(job), []

    def update(number):
        last[:] = [step([[features]], number, 1e-4).loss_sum]

    def wait():
        return [float(loss) for loss in last]

    seconds = turn_seconds(job, update, wait)
    describe = _on_jax if keras.backend.backend() == "jax" else _on_tensorflow
    device, memory, has_tensorfloat32 = describe()
    write_result(
        job,
        turn_seconds=seconds,
        loss=wait()[0] / (job["rows"] * job["length"]),
        parameters=model.count_params(),
        flops=flops(job),
        matrix_flops=_rate(side_for("gpu" if on_gpu else "cpu")),
        device=device,
        precision=PRECISION,
        tensorfloat32=has_tensorfloat32,
        fused=job["rules"].get("fused_attention", False) and _fuses_attention(),
        peak_memory_mb=memory or peak_memory_mb(),
        versions=versions(keras.backend.backend(), "keras"),
    )


def _on_tensorflow():
    """Returns the name of the device, its peak memory in MB (0 if unknown), and whether it rounds to TensorFloat-32."""
    import tensorflow as tf

    gpus = tf.config.list_physical_devices("GPU")
    name = tf.config.experimental.get_device_details(gpus[0])["device_name"] if gpus else "cpu"
    memory = tf.config.experimental.get_memory_info("GPU:0")["peak"] / 1e6 if gpus else 0.0
    return name, memory, tf.config.experimental.tensor_float_32_execution_enabled()


def _on_jax():
    """Returns the same of JAX's first device."""
    import jax

    device = jax.devices()[0]
    memory = (device.memory_stats() or {}).get("peak_bytes_in_use", 0.0) / 1e6
    return device.device_kind, memory, jax.config.jax_default_matmul_precision in (None, "tensorfloat32")


def _fuses_attention():
    """Returns whether JAX's update uses cuDNN's attention here."""
    from t2t.backends.jax.kernels import FusedKernels, fused_kernels

    return isinstance(fused_kernels(), FusedKernels)


def _rate(side):
    a, last = ops.ones((side, side), "bfloat16"), []
    product = _compiled(ops.matmul)

    def multiply():
        last[:] = [product(a, a)]

    return matrix_rate(multiply, lambda: [float(found[0, 0]) for found in last], side)


def _compiled(function):
    if keras.backend.backend() == "jax":
        import jax

        return jax.jit(function)
    import tensorflow as tf

    return tf.function(function)


if __name__ == "__main__":
    main()
