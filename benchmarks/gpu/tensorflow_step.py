"""Our side on TensorFlow: the project's own update, as in `t2t-trainer`."""

import tensorflow as tf

from benchmarks.gpu.model import PRECISION, SEED, batch, build_model, flops, matrix_rate, side_for, turn_seconds
from benchmarks.harness.child import peak_memory_mb, read_job, versions, write_result
from t2t.backends.choice import backend
from t2t.hparams.groups import OptimizerHParams
from t2t.training.optimizers import build_optimizer
from t2t.training.step import UpdateStep


def main():
    """Writes the times of updates and the peak matrix rate of the device."""
    job = read_job()
    backend().apply_precision(PRECISION)
    gpus = tf.config.list_physical_devices("GPU")
    devices = backend().devices(worker_gpu=min(1, len(gpus)))
    with devices.scope():
        model, optimizer = build_model(job), build_optimizer(OptimizerHParams())
    step, features, last = UpdateStep(model, optimizer, devices, run_seed=SEED, xla=job["xla"]), batch(job), []

    def update(number):
        last[:] = [step([[features]], number, 1e-4).loss_sum]

    def wait():
        return [float(loss) for loss in last]

    seconds = turn_seconds(job, update, wait)
    device = tf.config.experimental.get_device_details(gpus[0])["device_name"] if gpus else "cpu"
    memory = tf.config.experimental.get_memory_info("GPU:0")["peak"] / 1e6 if gpus else peak_memory_mb()
    write_result(
        job,
        turn_seconds=seconds,
        loss=wait()[0] / (job["rows"] * job["length"]),
        parameters=model.count_params(),
        flops=flops(job),
        matrix_flops=_rate(side_for("gpu" if gpus else "cpu")),
        device=device,
        precision=PRECISION,
        tensorfloat32=tf.config.experimental.tensor_float_32_execution_enabled(),
        peak_memory_mb=memory,
        versions=versions("tensorflow", "keras"),
    )


def _rate(side):
    a, last = tf.ones((side, side), tf.bfloat16), []
    product = tf.function(tf.matmul)

    def multiply():
        last[:] = [product(a, a)]

    return matrix_rate(multiply, lambda: [float(found[0, 0]) for found in last], side)


if __name__ == "__main__":
    main()
