"""Trains some updates as `KERAS_BACKEND=jax t2t-trainer` does, and times them."""

import os

os.environ["KERAS_BACKEND"] = "jax"  # before Keras, which reads it when it is imported

from benchmarks.ours import training

if __name__ == "__main__":
    training.main()
