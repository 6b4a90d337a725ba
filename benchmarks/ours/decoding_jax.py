"""Times decoding as in `KERAS_BACKEND=jax t2t-decoder`."""

import os

os.environ["KERAS_BACKEND"] = "jax"  # before Keras is imported, which reads it

from benchmarks.ours import decoding

if __name__ == "__main__":
    decoding.main()
