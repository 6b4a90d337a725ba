"""Our weights, for drivers that copy them into a peer's model.

Legend: D width of the input, E width of the output.
"""

import numpy as np


class Weights:
    """The arrays of a file from `benchmarks.harness.weights`; missing biases are zeros."""

    def __init__(self, path):
        self._arrays = dict(np.load(path))

    def __getitem__(self, name):
        """Returns an array by its name."""
        return self._arrays[name]

    def dense(self, name):
        """Returns the transposed kernel (E, D) and the bias (E,) of a dense layer."""
        return self._transposed(f"{name}/kernel", f"{name}/bias")

    def projections(self, attention, parts):
        """Returns transposed kernels and biases, each concatenated over `parts`: some of `query`, ..., `output`."""
        pairs = [
            self.dense(f"{attention}/output")
            if part == "output"
            else self._transposed(f"{attention}/project/{part}_kernel", f"{attention}/project/{part}_bias")
            for part in parts
        ]
        kernels, biases = zip(*pairs)  # noqa: B905  Python 3.9
        return np.concatenate(kernels), np.concatenate(biases)

    def norm(self, sublayer):
        """Returns gamma and beta, each (D,), of the norm after a sub-layer."""
        return tuple(self._arrays[f"{sublayer}_residual/norm/{name}"] for name in ("gamma", "beta"))

    def _transposed(self, kernel, bias):
        weight = np.ascontiguousarray(self._arrays[kernel].T)
        return weight, self._arrays.get(bias, np.zeros(len(weight), np.float32))
