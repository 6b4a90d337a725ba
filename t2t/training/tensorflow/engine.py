"""The training engine of TensorFlow."""

import contextlib
import subprocess
from pathlib import Path
from typing import Any

import keras
import tensorflow as tf

from t2t.errors import UserError
from t2t.models.base import SequenceModel
from t2t.training.cluster import ALONE, Cluster
from t2t.training.engine import Batch, Devices, EventWriter, ForwardCost, TrainingEngine
from t2t.training.step import UpdateStep
from t2t.training.tensorflow import cost, precision
from t2t.training.tensorflow.adam import FusedAdam
from t2t.training.tensorflow.distribute import StrategyDevices, build_strategy
from t2t.training.tensorflow.events import TensorFlowEvents
from t2t.training.tensorflow.step import TensorFlowStep
from t2t.training.tensorflow.workers import TensorFlowWorkers
from t2t.training.tensorflow.xla_errors import xla_errors
from t2t.training.workers import Workers


class TensorFlowTraining(TrainingEngine):
    """Trains under a `MirroredStrategy`, or with several workers a `MultiWorkerMirroredStrategy`."""

    always_compiles = False
    adam = FusedAdam

    def devices(
        self, worker_gpu: int = 0, worker_cpu: int = 0, cluster: Cluster = ALONE, weight_shards: int = 1
    ) -> StrategyDevices:
        """See the base class."""
        if weight_shards != 1:
            raise UserError(
                f"--weight_shards={weight_shards}: with TensorFlow each device has all weights of a replica; leave it "
                f"out, or train with KERAS_BACKEND=jax"
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

    def update_step(
        self, model: SequenceModel, optimizer: keras.optimizers.Optimizer, devices: Devices, **rules: Any
    ) -> UpdateStep:
        """See the base class."""
        assert isinstance(devices, StrategyDevices)
        return TensorFlowStep(model, optimizer, devices.strategy, **rules)

    def apply_precision(self, precision_name: str) -> str:
        """See the base class."""
        return precision.apply_precision(precision_name)

    def multiplies_bfloat16(self) -> bool:
        """See the base class."""
        return precision.multiplies_bfloat16()

    def compile_errors(self, xla: bool, batch: Batch) -> contextlib.AbstractContextManager:
        """See the base class."""
        return xla_errors(xla, batch)

    def forward_cost(self, model: SequenceModel, batch: Batch) -> ForwardCost:
        """See the base class."""
        return cost.forward_cost(model, batch)

    def forward_bytes(self, model: SequenceModel, batch: Batch) -> int:
        """See the base class."""
        return cost.forward_bytes(model, batch)

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

    def event_writer(self, folder: Path) -> EventWriter:
        """See the base class."""
        return TensorFlowEvents(folder)
