"""JAX as a backend."""

import contextlib
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import jax
import keras

from t2t.backends.base import (
    FLOAT32,
    Backend,
    Batch,
    ComputeCost,
    Devices,
    policy_of,
)
from t2t.backends.cluster import ALONE, Cluster
from t2t.backends.jax import functions
from t2t.backends.jax.devices import JaxWorkers, MeshDevices, build_devices, name_of
from t2t.backends.jax.functions import JaxFunction
from t2t.backends.jax.update import JaxUpdate
from t2t.backends.update import LossFunction, UpdateRules
from t2t.backends.workers import Workers
from t2t.errors import UserError, one_line, shapes_of
from t2t.files.paths import programs_folder
from t2t.layers.mode import held
from t2t.models.base import SequenceModel


class JaxBackend(Backend):
    """JAX: programs of fixed sizes, compiled by XLA, the same on each device."""

    name = "JAX"
    always_compiles = True
    adam = keras.optimizers.Adam

    def __init__(self):
        if jax.config.jax_compilation_cache_dir is None:  # unless the user has set or disabled it
            jax.config.update("jax_compilation_cache_dir", str(programs_folder()))

    def compile(self, function: Callable, signature: Sequence[Any], model: SequenceModel | None) -> JaxFunction:
        """See the base class."""
        return JaxFunction(function, signature, model)

    def update(
        self, loss: LossFunction, optimizer: keras.optimizers.Optimizer, devices: Devices, rules: UpdateRules
    ) -> JaxUpdate:
        """See the base class."""
        assert isinstance(devices, MeshDevices)
        return JaxUpdate(loss, optimizer, devices, rules)

    def devices(
        self, worker_gpu: int = 0, worker_cpu: int = 0, cluster: Cluster = ALONE, weight_shards: int = 1
    ) -> MeshDevices:
        """See the base class."""
        return build_devices(worker_gpu, worker_cpu, cluster, weight_shards)

    def scope_of(self, model: keras.Model) -> contextlib.AbstractContextManager:
        """See the base class."""
        return contextlib.nullcontext()

    def workers(self, devices: Devices, cluster: Cluster) -> Workers:
        """See the base class."""
        return JaxWorkers(cluster)

    def devices_of(self, model: SequenceModel) -> list[str]:
        """See the base class."""
        rows = functions.rows_of(model.variables[0].value)
        return [",".join(map(str, row)) for row in rows] if len(rows) > 1 else [""]

    def use_device(self, number: int, name: str) -> contextlib.AbstractContextManager:
        """See the base class."""
        return held(functions.current_copy, number)

    def on_accelerators(self) -> bool:
        """See the base class."""
        return jax.default_backend() != "cpu"

    def use_single_core_ops(self) -> None:
        """Does nothing: XLA runs what is large enough on several cores."""

    def apply_precision(self, precision: str) -> str:
        """See the base class."""
        jax.config.update("jax_default_matmul_precision", "highest" if precision == FLOAT32 else None)
        return policy_of(precision)

    def multiplies_bfloat16(self) -> bool:
        """See the base class."""
        devices = [device for device in jax.local_devices() if device.platform != "cpu"]
        return bool(devices) and all(
            device.platform != "gpu" or float(getattr(device, "compute_capability", 0)) >= 8 for device in devices
        )

    @contextlib.contextmanager
    def compile_errors(self, xla: bool, batch: Batch) -> Iterator[None]:
        """See the base class."""
        try:
            yield
        except jax.errors.JaxRuntimeError as error:
            if not str(error).startswith(("UNIMPLEMENTED", "INVALID_ARGUMENT")):
                raise
            raise UserError(
                f"KERAS_BACKEND=jax: XLA cannot compile or run the model for {shapes_of(batch)} "
                f"({one_line(str(error))[:300]})",
                "train it with KERAS_BACKEND=tensorflow",
            ) from error

    def forward_cost(self, model: SequenceModel, batch: Batch) -> ComputeCost:
        """See the base class."""
        return functions.forward_cost(model, batch)

    def forward_bytes(self, model: SequenceModel, batch: Batch) -> int:
        """See the base class."""
        return functions.forward_bytes(model, batch)

    def device_memory(self, device: str) -> tuple[int, int]:
        """See the base class."""
        found = next((one.memory_stats() for one in jax.local_devices() if name_of(one) == device), None) or {}
        return found.get("peak_bytes_in_use", 0), found.get("bytes_limit", 0)
