"""TensorFlow as a backend, with its precision and its errors of compiling."""

import contextlib
import logging
import os
import re
import subprocess
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import keras
import tensorflow as tf

from t2t.backends.base import (
    FLOAT32,
    Backend,
    Batch,
    ComputeCost,
    Devices,
    policy_of,
)
from t2t.backends.cluster import ALONE, Cluster
from t2t.backends.tensorflow import functions
from t2t.backends.tensorflow.devices import StrategyDevices, TensorFlowWorkers, build_strategy
from t2t.backends.tensorflow.functions import TensorFlowFunction
from t2t.backends.tensorflow.update import TensorFlowUpdate
from t2t.backends.tensorflow.weights import FusedAdam
from t2t.backends.update import LossFunction, UpdateRules
from t2t.backends.workers import Workers
from t2t.errors import UserError, one_line, shapes_of
from t2t.files import processor
from t2t.layers.mode import held
from t2t.models.base import SequenceModel

log = logging.getLogger("t2t")

_KEPT_KERNELS = {"ONEDNN_PRIMITIVE_CACHE_CAPACITY": "4096", "TF_MKL_OPTIMIZE_PRIMITIVE_MEMUSE": "false"}
"""oneDNN's cache has room for 1,024 kernels, which a search of a thousand sentences overflows. TensorFlow has another
cache in front of it, which it does not use for matrix products by default."""

_COMPILING = (
    tf.errors.InvalidArgumentError, tf.errors.UnimplementedError, tf.errors.InternalError, tf.errors.NotFoundError,
    tf.errors.FailedPreconditionError,
)  # fmt: skip
"""What TensorFlow raises for an operation that XLA lacks, a size that XLA must know but does not, or a device compiler
that is missing or fails."""
_TELLS = re.compile("xla|compil|local_gradient|libdevice|ptxas", re.IGNORECASE)
"""Found in the messages of such errors; other errors of these types have other causes, e.g. a worker that has ended."""


class TensorFlowBackend(Backend):
    """TensorFlow: graphs of unknown sizes.

    Trains under a `MirroredStrategy`, or with several workers a `MultiWorkerMirroredStrategy`.
    """

    name = "TensorFlow"
    always_compiles = False
    adam = FusedAdam

    def compile(self, function: Callable, signature: Sequence[Any], model: SequenceModel | None) -> TensorFlowFunction:
        """See the base class."""
        return TensorFlowFunction(function, signature, model)

    def update(
        self, loss: LossFunction, optimizer: keras.optimizers.Optimizer, devices: Devices, rules: UpdateRules
    ) -> TensorFlowUpdate:
        """See the base class."""
        assert isinstance(devices, StrategyDevices)
        if rules.fused_attention:
            log.warning("fused attention: TensorFlow has none; attention is computed by products")
        return TensorFlowUpdate(loss, optimizer, devices, rules)

    def devices(
        self, worker_gpu: int = 0, worker_cpu: int = 0, cluster: Cluster = ALONE, weight_shards: int = 1
    ) -> StrategyDevices:
        """See the base class."""
        if weight_shards != 1:
            raise UserError(
                "with TensorFlow each device has all weights of a replica",
                "leave it out, or train with KERAS_BACKEND=jax",
                option="weight_shards",
                value=weight_shards,
            )
        return StrategyDevices(build_strategy(worker_gpu, worker_cpu, cluster))

    def scope_of(self, model: keras.Model) -> contextlib.AbstractContextManager:
        """See the base class."""
        value = model.variables[0].value
        is_on_several = isinstance(value, tf.distribute.DistributedValues)
        return value.distribute_strategy.scope() if is_on_several else contextlib.nullcontext()

    def workers(self, devices: Devices, cluster: Cluster) -> Workers:
        """See the base class."""
        assert isinstance(devices, StrategyDevices)
        return TensorFlowWorkers(devices.strategy, cluster)

    def devices_of(self, model: SequenceModel) -> list[str]:
        """See the base class."""
        copies = functions.copies_of(model)
        return [weights[0].device for weights in copies] if len(copies) > 1 else [""]

    @contextlib.contextmanager
    def use_device(self, number: int, name: str) -> Iterator[None]:
        """See the base class."""
        with held(functions.current_copy, number), tf.device(name) if name else contextlib.nullcontext():
            yield

    def on_accelerators(self) -> bool:
        """See the base class."""
        return bool(tf.config.list_physical_devices("GPU"))

    def use_single_core_ops(self) -> None:
        """See the base class; does nothing if TensorFlow has started, and keeps settings of the environment.

        It also enlarges the caches of oneDNN's kernels, which are compiled for each shape: shapes change with every
        step of a search, and recur with every batch.
        """
        for name, value in _KEPT_KERNELS.items():
            os.environ.setdefault(name, value)
        if "TF_NUM_INTRAOP_THREADS" not in os.environ:
            with contextlib.suppress(RuntimeError):
                tf.config.threading.set_intra_op_parallelism_threads(1)

    def apply_precision(self, precision: str) -> str:
        """See the base class."""
        tf.config.experimental.enable_tensor_float_32_execution(precision != FLOAT32)
        return policy_of(precision)

    def multiplies_bfloat16(self) -> bool:
        """See the base class."""
        return multiplies_bfloat16()

    @contextlib.contextmanager
    def compile_errors(self, xla: bool, batch: Batch) -> Iterator[None]:
        """See the base class.

        There is no fallback without XLA: a run must not be slow for a reason that has long scrolled off the screen.
        """
        try:
            yield
        except _COMPILING as error:
            if not (xla and _TELLS.search(error.message or "")):
                raise
            reason = re.sub(r"\{\{.*?\}\}", "", (error.message or "").partition("\n")[0])
            raise UserError(
                f"XLA cannot compile or run the model for {shapes_of(batch)} ({one_line(reason)[:300]})",
                "use --hparams=xla=off",
                hparam="xla",
                value="on",
            ) from error

    def forward_cost(self, model: SequenceModel, batch: Batch) -> ComputeCost:
        """See the base class."""
        return functions.forward_cost(model, batch)

    def forward_bytes(self, model: SequenceModel, batch: Batch) -> int:
        """See the base class."""
        return functions.forward_bytes(model, batch)

    def device_memory(self, device: str) -> tuple[int, int]:
        """See the base class. TensorFlow does not tell what a GPU has; NVIDIA's program does."""
        capacities = []
        with contextlib.suppress(OSError, subprocess.SubprocessError, ValueError):
            command = ["nvidia-smi", "--query-gpu=memory.total", "--format=csv,noheader,nounits"]
            printed = subprocess.run(command, capture_output=True, text=True, check=True, timeout=10).stdout
            capacities = [int(line) * 2**20 for line in printed.split()]
        used = 0
        with contextlib.suppress(ValueError, tf.errors.OpError):  # of an allocator that keeps no count
            used = tf.config.experimental.get_memory_info(device)["peak"]
        return used, min(capacities, default=0)


def multiplies_bfloat16(details: Sequence[Mapping[str, Any]] | None = None) -> bool:
    """Returns whether all visible GPUs multiply bfloat16, NVIDIA's since Ampere (2020); without GPUs, the processor.

    `details` describes the GPUs; None for TensorFlow's description of those that are visible.
    """
    if details is None:
        details = [tf.config.experimental.get_device_details(gpu) for gpu in tf.config.get_visible_devices("GPU")]
    if not details:
        # TensorFlow multiplies with these instructions only by oneDNN.
        return os.environ.get("TF_ENABLE_ONEDNN_OPTS", "1") != "0" and processor.multiplies_bfloat16()
    return all(one.get("compute_capability", (0, 0)) >= (8, 0) for one in details)
