"""Seeds of dropout masks, noise and samples: functions of the run's seed and an index, the same on every machine."""

import hashlib

import numpy as np


def dropout_seed(run_seed: int, update: int, micro_batch: int, replica: int) -> np.ndarray:
    """Returns a (2,) int64 seed; each layer adds its own constant to the second number."""
    return _integers(f"dropout {run_seed} {update} {micro_batch} {replica}", 2)


def noise_seed(run_seed: int, weight: int) -> np.int64:
    """Returns half of the seed of the noise on a weight's gradient; the other half is the number of the update."""
    return _integers(f"noise {run_seed} {weight}", 1)[0]


def sampling_seed(run_seed: int, update: int) -> int:
    """Returns the seed of the outputs that are sampled in an update."""
    return int(_integers(f"sampling {run_seed} {update}", 1)[0])


def _integers(text: str, count: int) -> np.ndarray:
    found = np.frombuffer(hashlib.blake2b(text.encode(), digest_size=8 * count).digest(), dtype=np.uint64)
    return (found >> np.uint64(2)).astype(np.int64)  # room for a layer's number without overflow
