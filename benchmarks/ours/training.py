"""Trains some updates as `t2t-trainer` does, and times them."""

import math
import shutil

import keras

from benchmarks.harness.child import Clock, peak_memory_mb, read_job, versions, write_result
from benchmarks.ours.runs import build_run


class Timed(keras.callbacks.Callback):
    """Ticks after every update."""

    def __init__(self, clock: Clock):
        super().__init__()
        self.clock, self.peak_memory_mb, self.tokens_per_update, self.loss = clock, 0.0, 0.0, 0.0

    def on_train_batch_end(self, batch, logs=None):
        """See the base class."""
        smallest = min(self.model.trainable_variables, key=lambda variable: math.prod(variable.shape))
        keras.ops.convert_to_numpy(smallest)  # JAX has begun the update: its result is waited for
        self.clock.tick()
        if logs:
            self.tokens_per_update, self.loss = logs["tokens_per_update"], logs["loss"]
        if self.clock.done:
            self.peak_memory_mb = peak_memory_mb()  # before the checkpoint


def main():
    """Writes the times, and what this processor gives at best, measured in the same process."""
    job = read_job()
    timed = Timed(Clock(job))
    run = build_run(job, train_steps=timed.clock.wanted, log_every=timed.clock.wanted)
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
    """Returns what this processor multiplies at best by TensorFlow; nothing where another engine trains."""
    if keras.backend.backend() != "tensorflow":
        return {}
    from benchmarks.ours.matrix_rate import matrix_rate  # it imports TensorFlow

    return {"matrix_flops": matrix_rate()}


if __name__ == "__main__":
    main()
