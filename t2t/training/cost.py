"""What an update costs, in operations and memory, known before anything runs; the memory of this process.

Operations are floating-point operations of matrix products. For each product of the forward pass, the backward pass has
two of the same size. All else (norms, softmax, dropout, the optimizer) is left out: it is a few percent.
"""

import contextlib
import dataclasses
import math
import os
import resource
import sys
from pathlib import Path

import numpy as np

from t2t.backends import backend
from t2t.backends.base import ComputeCost, Devices
from t2t.files.processor import control_group_values
from t2t.layers.adapters import Adapters
from t2t.models.base import SequenceModel


def update_cost(model: SequenceModel, batch: dict[str, np.ndarray]) -> ComputeCost:
    """Returns the cost of the forward and backward pass of one batch; only its shapes matter."""
    forward = backend().forward_cost(model, batch)
    return forward._replace(flops=3 * forward.flops)  # forward once, backward twice


@dataclasses.dataclass(frozen=True)
class MemoryEstimate:
    """Bytes on each replica."""

    weights: int
    optimizer: int
    gradients: int
    activations: int
    """All intermediate tensors of the forward pass of the largest batch; the backward pass keeps fewer."""

    @property
    def total(self) -> int:
        """Sum of the parts."""
        return self.weights + self.optimizer + self.gradients + self.activations

    def __str__(self) -> str:
        listed = ", ".join(f"{name} {size / 2**20:,.0f} MiB" for name, size in dataclasses.asdict(self).items())
        return f"about {self.total / 2**20:,.0f} MiB on each replica ({listed})"


def estimate(
    model: SequenceModel,
    batch: dict[str, np.ndarray],
    slots: int,
    accumulates: bool,
    adapters: Adapters | None = None,
) -> MemoryEstimate:
    """Returns the estimate for a model and its largest batch; only the shapes and dtypes of the batch matter.

    The optimizer keeps `slots` variables as large as the weights, including the moving average. `accumulates` says
    whether gradients are summed over micro-batches. `adapters`, if any, are trained in place of the weights.
    """
    added = adapters.variables if adapters else []
    trained_variables = added or model.trainable_variables
    weights, trained = (
        sum(math.prod(v.shape) * 4 for v in some) for some in ([*model.variables, *added], trained_variables)
    )
    gradients = trained * (3 if accumulates else 2)  # by weight, as one vector to reduce, and summed
    return MemoryEstimate(weights, trained * slots, gradients, backend().forward_bytes(model, batch))


def used_memory(devices: Devices) -> str:
    """Describes the peak memory of this process, or of its first accelerator, beside what the machine has."""
    name = devices.names[0]
    used, capacity = backend().device_memory(name) if devices.are_gpus else (peak_memory(), memory_limit())
    if not used:
        return f"the memory of {name} is not known"
    of = f" of {capacity / 2**30:,.1f}" if capacity else ""
    return f"at most {used / 2**30:,.1f}{of} GiB of memory{f' of {name}' if devices.are_gpus else ''}"


def peak_memory() -> int:
    """Returns the most bytes of main memory that this process has used so far."""
    with contextlib.suppress(OSError, StopIteration):  # Linux; the other figure is there that of the parent at least
        lines = Path("/proc/self/status").read_text(encoding="utf-8").strip().split("\n")
        return 1024 * next(int(line.split()[1]) for line in lines if line.startswith("VmHWM:"))
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)


def memory_limit(root: Path = Path("/")) -> int:
    """Returns the bytes of main memory that this process may use: the machine's, or less in a container.

    Reads the limits of Linux's control groups, of both versions; `root` is the folder that has `proc` and `sys`.
    """
    limits = [os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")]
    found = control_group_values(root, "memory", ["memory.limit_in_bytes"], "memory.max")
    limits += [int(text) for text in found if text.isdigit()]  # or `max`
    return min(limits)
