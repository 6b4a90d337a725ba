"""Times some updates as in `KERAS_BACKEND=jax t2t-trainer`."""

import os

os.environ["KERAS_BACKEND"] = "jax"  # before Keras is imported, which reads it

from benchmarks.ours import training

if __name__ == "__main__":
    training.main()
