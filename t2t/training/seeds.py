"""Seeds of dropout masks: a function of (run seed, update, micro-batch, replica), the same on every machine."""

import hashlib

import numpy as np


def dropout_seed(run_seed: int, update: int, micro_batch: int, replica: int) -> np.ndarray:
    """Returns a (2,) int64 seed; each layer adds a number of its own to the second half."""
    text = f"dropout {run_seed} {update} {micro_batch} {replica}".encode()
    halves = np.frombuffer(hashlib.blake2b(text, digest_size=16).digest(), dtype=np.uint64)
    return (halves >> np.uint64(2)).astype(np.int64)  # room for a layer's number without overflow
