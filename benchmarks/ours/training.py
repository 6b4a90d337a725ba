"""Times some updates as in `t2t-trainer`."""

import math
import shutil
import time
from collections.abc import Callable

from t2t.runs.startup import prepare_framework, start_command

start_command()
prepare_framework()

import keras  # noqa: E402

from benchmarks.harness.child import Clock, peak_memory_mb, read_job, versions, write_result  # noqa: E402
from benchmarks.ours.runs import build_run  # noqa: E402


class Timed(keras.callbacks.Callback):
    """Callback that ticks the clock after every update, and then waits while programs of later ones are compiled."""

    def __init__(self, clock: Clock):
        super().__init__()
        self.clock, self.peak_memory_mb, self.tokens_per_update, self.loss = clock, 0.0, 0.0, 0.0
        self.is_compiling: Callable[[], bool] = lambda: False

    def on_train_batch_end(self, batch, logs=None):
        """Waits for the update and records it."""
        smallest = min(self.model.trainable_variables, key=lambda variable: math.prod(variable.shape))
        keras.ops.convert_to_numpy(smallest)  # JAX runs asynchronously: wait for the result
        self.clock.tick()
        if logs:
            self.tokens_per_update, self.loss = logs["tokens_per_update"], logs["loss"]
        while not self.clock.done and self.is_compiling():
            time.sleep(0.05)
        if self.clock.done:
            self.peak_memory_mb = peak_memory_mb()  # before the checkpoint


def main():
    """Writes the times of updates, and the matrix rate of this processor, measured in the same process."""
    job = read_job()
    timed = Timed(Clock(job))
    run = build_run(job, train_steps=timed.clock.wanted, log_every=timed.clock.wanted)
    timed.is_compiling = lambda: run.step.is_compiling
    try:
        run.fit([timed])
    finally:
        shutil.rmtree(job["output_dir"], ignore_errors=True)
    write_result(
        job,
        **timed.clock.figures(),
        peak_memory_mb=timed.peak_memory_mb,
        tokens_per_update=timed.tokens_per_update,
        loss=timed.loss,
        versions=versions(keras.backend.backend(), "keras", "numpy"),
        **_matrix_rate(),
    )


def _matrix_rate():
    """Returns `matrix_flops`, the matrix rate of TensorFlow on this processor; empty with another backend."""
    if keras.backend.backend() != "tensorflow":
        return {}
    from benchmarks.ours.matrix_rate import matrix_rate  # it imports TensorFlow

    return {"matrix_flops": matrix_rate()}


if __name__ == "__main__":
    main()
