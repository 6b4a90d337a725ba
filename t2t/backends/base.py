"""The interface of the backends, TensorFlow and JAX; `t2t.backends` chooses between them.

A backend compiles functions of values, places them on devices and adds up over these. All other packages for training
and decoding use only `keras.ops` and numpy. Signatures are structures of `keras.KerasTensor`: shapes and dtypes.
"""

import abc
import contextlib
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import keras
import numpy as np

from t2t.backends.cluster import ALONE, Cluster
from t2t.backends.update import LossFunction, Update, UpdateRules
from t2t.backends.workers import Workers
from t2t.data.columns import SEQUENCES, batch_dtype
from t2t.models.base import SequenceModel

Batch = Mapping[str, np.ndarray]

FLOAT32, TENSORFLOAT32 = "float32", "tensorfloat32"
"""Values of the hparam `precision`: the type of activations, and how a process multiplies float32 matrices.

By default TensorFlow and JAX multiply and convolve float32 in TensorFloat-32 on NVIDIA GPUs: operands are rounded to 11
significant bits, sums are float32. `float32` is float32 throughout. All other values allow TensorFloat-32; operands
that were 16-bit numbers, as with `mixed_bfloat16` and `mixed_float16`, lose nothing by it.
"""


def policy_of(precision: str) -> str:
    """Returns the Keras dtype policy of a model."""
    return FLOAT32 if precision == TENSORFLOAT32 else precision


class Devices(abc.ABC):
    """The devices that train, of all workers."""

    names: list[str]
    """Those of this process, e.g. `GPU:0`."""
    replicas: int
    """Number of copies of the model in all processes: one on each device, or on each `weight_shards` of them."""
    own: range
    """Indices of the replicas in this process."""

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


class CompiledFunction(abc.ABC):
    """A compiled function of tensors that reads the current weights of a model at each call."""

    outputs: Any = None
    """Signature of the results where the sizes of arguments may be unknown (TensorFlow), else None."""

    @abc.abstractmethod
    def __call__(self, *tensors: Any) -> Any:
        """Runs the function on the thread's device, see `use_device`.

        Takes arrays as the signature says; returns a structure of TensorFlow tensors or numpy arrays.
        """


class ComputeCost(NamedTuple):
    """Cost of a pass over a batch, counted from its operations before anything runs."""

    flops: int
    """Operations of the matrix products and convolutions outside loops; (m, k) times (k, n) takes 2 m k n."""
    loops: bool
    """Whether products in loops, e.g. over time, were left out because their number of iterations is not known."""


class Backend(abc.ABC):
    """A framework that trains models and runs their functions."""

    name: str
    always_compiles: bool
    """Whether XLA compiles every program, for each shape of its arguments, so that batches should have few shapes."""
    adam: type[keras.optimizers.Adam]
    """The fastest Adam, with Keras's slot names."""

    # === Compiled functions ===

    @abc.abstractmethod
    def compile(self, function: Callable, signature: Sequence[Any], model: SequenceModel | None) -> CompiledFunction:
        """Compiles a function of tensors.

        Args:
            function: of tensors. Padding its arrays with zeros, in rows or columns, must not change the results for
                the rest; it only adds rows and columns to them.
            signature: of the tensors. Axis 0 of arrays is rows; it and other axes of unknown size may be padded with
                zeros, and only axis 0 of the results is cut back. A scalar may be compiled as a constant.
            model: whose weights `function` reads; None if it reads no weights.
        """

    @abc.abstractmethod
    def update(
        self, loss: LossFunction, optimizer: keras.optimizers.Optimizer, devices: Devices, rules: UpdateRules
    ) -> Update:
        """Returns the `Update` that minimizes a loss on devices; the optimizer was made under their scope."""

    @abc.abstractmethod
    def compile_errors(self, xla: bool, batch: Batch) -> contextlib.AbstractContextManager:
        """Returns a context that turns a failure to compile a program for a batch into a UserError."""

    # === Devices and processes ===

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
            UserError: more devices than exist, a number that cannot change after the backend has started, or a number
                that `weight_shards` does not divide.
        """

    @abc.abstractmethod
    def workers(self, devices: Devices, cluster: Cluster) -> Workers:
        """Returns the processes of a run."""

    @abc.abstractmethod
    def scope_of(self, model: keras.Model) -> contextlib.AbstractContextManager:
        """Returns a context in which variables are created on the same devices as a model's."""

    @abc.abstractmethod
    def devices_of(self, model: SequenceModel) -> list[str]:
        """Returns the names of the devices with a copy of the model's weights; `[""]` if there is one copy."""

    @abc.abstractmethod
    def use_device(self, number: int, name: str) -> contextlib.AbstractContextManager:
        """Returns a context in which this thread runs functions on a device, by its index and name in `devices_of`."""

    @abc.abstractmethod
    def on_accelerators(self) -> bool:
        """Returns whether it computes on accelerators instead of the processor."""

    @abc.abstractmethod
    def use_single_core_ops(self) -> None:
        """Makes each operation run on one core, if the process still allows that; see `t2t.inference.parallel`."""

    # === Precision, cost and memory ===

    @abc.abstractmethod
    def apply_precision(self, precision: str) -> str:
        """Sets how this process multiplies float32 matrices; returns the Keras dtype policy of a model.

        It holds for all models of the process until the next call. See `FLOAT32`.
        """

    @abc.abstractmethod
    def multiplies_bfloat16(self) -> bool:
        """Returns whether all visible devices multiply bfloat16 faster than float32."""

    @abc.abstractmethod
    def forward_cost(self, model: SequenceModel, batch: Batch) -> ComputeCost:
        """Returns the cost of computing all logits of a batch; only its shapes and dtypes matter."""

    @abc.abstractmethod
    def forward_bytes(self, model: SequenceModel, batch: Batch) -> int:
        """Returns the total bytes of the intermediate tensors of a batch's training loss, with dropout."""

    @abc.abstractmethod
    def device_memory(self, device: str) -> tuple[int, int]:
        """Returns the most bytes used so far on an accelerator, by its name in `Devices`, and how many there are.

        Either is 0 where it is not known.
        """


def inputs_signature(model: SequenceModel) -> keras.KerasTensor:
    """Returns the signature of a batch of inputs, or of prefixes if the model has no inputs."""
    spec = model.spec.inputs or model.spec.targets
    lengths = [None] if spec.kind in SEQUENCES else []
    return keras.KerasTensor([None, *lengths, *spec.shape], batch_dtype(spec).name)


def batch_signature(model: SequenceModel, batch: dict[str, np.ndarray]) -> dict[str, keras.KerasTensor]:
    """Returns the signature of a batch's features; numbers of rows and lengths are unknown, sizes of items known."""
    specs = {name: spec for name, spec in model.spec.features.items() if name in batch}
    items = {name: specs[name].shape if name in specs else () for name in batch}
    return {
        name: keras.KerasTensor([None] * (array.ndim - len(items[name])) + list(items[name]), array.dtype.name)
        for name, array in batch.items()
    }
