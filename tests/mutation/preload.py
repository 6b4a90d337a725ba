"""What trials of breaks need and no break touches: imported once, by the process that all trials are forks of."""

import os

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
os.environ.setdefault("TF_ENABLE_ONEDNN_OPTS", "0")  # as in tests/conftest.py, which comes too late here

import keras  # noqa: F401
import numpy  # noqa: F401
import tensorflow  # noqa: F401
