"""Workers of a `MultiWorkerMirroredStrategy`.

Legend: W workers, N numbers of each.
"""

import re
from collections.abc import Sequence

import numpy as np
import tensorflow as tf

from t2t.training.cluster import ALONE, Cluster
from t2t.training.step import UpdateStep
from t2t.training.workers import Workers


class TensorFlowWorkers(Workers):
    """Workers that communicate by the collective operations of a strategy."""

    def __init__(self, strategy: tf.distribute.Strategy, cluster: Cluster = ALONE):
        super().__init__(cluster)
        self._strategy = strategy

    def _gather(self, own_N: np.ndarray) -> np.ndarray:
        rows_WN = np.zeros((len(self.cluster.addresses), len(own_N)), np.int64)
        rows_WN[self.cluster.index] = own_N
        return self._sum_of_workers(tf.constant(rows_WN)).numpy()

    def _send_state(self, step: UpdateStep) -> None:
        self._send_variables([*(variable.value for variable in step.state_variables), *step.ema])

    def _lost_message(self, error: Exception) -> str | None:
        if not isinstance(error, tf.errors.OpError) or "ollective" not in error.message:
            return None
        return error.message

    def _named_in(self, message: str) -> set[int]:
        return {int(number) for number in re.findall(r"/task:(\d+)", message)}

    def _sum_of_workers(self, tensor):
        """Returns the sum of the workers' tensors."""
        return self._strategy.experimental_local_results(self._summed(tensor))[0]

    @tf.function(autograph=False, reduce_retracing=True)
    def _summed(self, tensor):
        def replica():
            context = tf.distribute.get_replica_context()
            counts = self._number_in_worker(context) == 0
            return context.all_reduce(
                tf.distribute.ReduceOp.SUM, tf.identity(tensor) if counts else tf.zeros_like(tensor)
            )

        return self._strategy.run(replica)

    def _number_in_worker(self, context) -> int:
        number = tf.get_static_value(tf.convert_to_tensor(context.replica_id_in_sync_group))
        return number % len(self._strategy.extended.worker_devices)

    def _send_variables(self, variables: Sequence[tf.Variable]) -> None:
        """Copies the values of the chief's first replica to the variables of all."""

        def replica():
            context = tf.distribute.get_replica_context()
            is_source = tf.get_static_value(tf.convert_to_tensor(context.replica_id_in_sync_group)) == 0
            values = [v.read_value() if is_source else tf.zeros_like(v) for v in variables]
            return [context.all_reduce(tf.distribute.ReduceOp.SUM, value) for value in values]

        @tf.function(autograph=False)
        def send():
            sent = self._strategy.run(replica)
            for variable, value in zip(variables, sent, strict=True):
                self._strategy.extended.update(variable, lambda v, new: v.assign(new), args=(value,), group=False)

        send()
