"""Decodes as `KERAS_BACKEND=jax t2t-decoder` does, and times it."""

import os

os.environ["KERAS_BACKEND"] = "jax"  # before Keras, which reads it when it is imported

from benchmarks.ours import decoding

if __name__ == "__main__":
    decoding.main()
