"""The training batches of a job.

Letters: B rows of a batch, S source length, T target length.
"""

import numpy as np


def batches(path):
    """Yields the inputs (B, S) and targets (B, T) of every batch, int32."""
    arrays = np.load(path)
    for number in range(len(arrays.files) // 2):
        yield arrays[f"inputs_{number}"], arrays[f"targets_{number}"]
