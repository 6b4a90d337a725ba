"""The interface of the training engines, TensorFlow and JAX; `t2t.training.engine_choice` chooses between them.

They are implemented in `t2t.training.tensorflow` and `t2t.training.jax`. The rest of this package uses only
`keras.ops` and numpy.
"""

import abc
import contextlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import keras
import numpy as np

from t2t.errors import MachineError, one_line
from t2t.models.base import SequenceModel
from t2t.training.cluster import ALONE, Cluster
from t2t.training.step import UpdateStep
from t2t.training.workers import Workers

Batch = Mapping[str, np.ndarray]


class Devices(abc.ABC):
    """The devices that train, of all workers."""

    names: list[str]
    """Those of this process, e.g. `GPU:0`."""
    replicas: int
    """Number of copies of the model in all processes: one on each device, or on each `weight_shards` of them."""

    @property
    def are_gpus(self) -> bool:
        """Whether any of them is a GPU or another accelerator."""
        return any(not name.startswith("CPU") for name in self.names)

    @abc.abstractmethod
    def scope(self) -> contextlib.AbstractContextManager:
        """Returns a context for creating variables, either on all devices, or where `spread` will copy them from."""

    @abc.abstractmethod
    def spread(self, variables: Sequence[keras.Variable]) -> None:
        """Copies variables that were created in the scope to all devices of this process."""


class ForwardCost(NamedTuple):
    """Cost of one forward pass, counted from its operations before anything runs."""

    flops: int
    """Operations of the matrix products and convolutions outside loops; (m, k) times (k, n) takes 2 m k n."""
    loops: bool
    """Whether products in loops, e.g. over time, were left out because their number of iterations is not known."""


class EventWriter(abc.ABC):
    """Writes figures that TensorBoard shows."""

    @abc.abstractmethod
    def write(self, group: str, update: int, figures: Mapping[str, float]) -> None:
        """Writes figures of a group, e.g. `train`, at an update; raises MachineError where that fails."""

    @abc.abstractmethod
    def flush(self) -> None:
        """Waits until all events are on disk; raises MachineError where that fails."""


def events_error(folder: Path, reason: str) -> MachineError:
    """Returns the error of events that cannot be written."""
    return MachineError(
        f"cannot write TensorBoard events in {folder}: {one_line(reason)}; free some space there, get write permission "
        f"or move what is in the way, and run the same command again"
    )


class TrainingEngine(abc.ABC):
    """A framework that trains models."""

    always_compiles: bool
    """Whether XLA compiles every program, so that batches should have few shapes."""
    adam: type[keras.optimizers.Adam]
    """The fastest Adam, with Keras's slot names."""

    @abc.abstractmethod
    def devices(
        self, worker_gpu: int = 0, worker_cpu: int = 0, cluster: Cluster = ALONE, weight_shards: int = 1
    ) -> Devices:
        """Returns the devices to train on; with several workers, waits until all have started.

        Args:
            worker_gpu: number of accelerators; 0 = all visible ones, or one replica on the processor without any.
            worker_cpu: number of replicas on the processor instead, to try out distribution.
            cluster: the processes.
            weight_shards: number of devices that a replica's weights are split over.

        Raises:
            UserError: more devices than exist, a number that cannot change after the engine has started, or a number
                that `weight_shards` does not divide.
        """

    @abc.abstractmethod
    def scope_of(self, model: keras.Model) -> contextlib.AbstractContextManager:
        """Returns a context in which variables are created on the same devices as a model's."""

    @abc.abstractmethod
    def workers(self, devices: Devices, cluster: Cluster) -> Workers:
        """Returns the processes of a run."""

    @abc.abstractmethod
    def update_step(
        self, model: SequenceModel, optimizer: keras.optimizers.Optimizer, devices: Devices, **rules: Any
    ) -> UpdateStep:
        """Returns the update step of a model; `rules` are keyword arguments of the engine's `UpdateStep`."""

    @abc.abstractmethod
    def apply_precision(self, precision: str) -> str:
        """Sets how this process multiplies float32 matrices; returns the Keras dtype policy of a model.

        It holds for all models of the process until the next call. See `t2t.training.precision`.
        """

    @abc.abstractmethod
    def multiplies_bfloat16(self) -> bool:
        """Returns whether all visible devices multiply bfloat16 faster than float32."""

    @abc.abstractmethod
    def compile_errors(self, xla: bool, batch: Batch) -> contextlib.AbstractContextManager:
        """Returns a context that turns a failure to compile a program for a batch into a UserError."""

    @abc.abstractmethod
    def forward_cost(self, model: SequenceModel, batch: Batch) -> ForwardCost:
        """Returns the cost of computing all logits of a batch; only its shapes and dtypes matter."""

    @abc.abstractmethod
    def forward_bytes(self, model: SequenceModel, batch: Batch) -> int:
        """Returns the total bytes of the intermediate tensors of a batch's training loss, with dropout."""

    @abc.abstractmethod
    def device_memory(self, device: str) -> tuple[int, int]:
        """Returns the most bytes used so far on an accelerator, by its name in `Devices`, and how many there are.

        Either is 0 where it is not known.
        """

    @abc.abstractmethod
    def event_writer(self, folder: Path) -> EventWriter:
        """Returns a writer of TensorBoard events; each group has its own folder in `folder`."""
