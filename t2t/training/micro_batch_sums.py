"""What the micro-batches of an update add up to, on each replica.

Legend: P numbers in all weights together, K counts beside them.
"""

import tensorflow as tf


class MicroBatchSums:
    """Variables of each replica, zero between updates: the gradient's, (P,), and the counts' of each problem, (K,).

    Args:
        strategy: of the replicas.
        size: P.
    """

    def __init__(self, strategy: tf.distribute.Strategy, size: int):
        self._strategy, self._size = strategy, size
        self._gradient: tf.Variable | None = None
        self._counts: dict[str, tf.Variable] = {}

    def prepare(self, problem: str, counts: int) -> None:
        """Creates the variables of a problem with K `counts`, where they do not exist."""
        if self._gradient is None:
            self._gradient = self._zeros(self._size)
        if problem not in self._counts:
            self._counts[problem] = self._zeros(counts)

    def of(self, problem: str) -> tuple[tf.Variable, tf.Variable]:
        """Returns the variables of a problem, prepared before."""
        assert self._gradient is not None
        return self._gradient, self._counts[problem]

    def _zeros(self, size: int) -> tf.Variable:
        by_replica = {
            "synchronization": tf.VariableSynchronization.ON_READ, "aggregation": tf.VariableAggregation.SUM,
        }  # fmt: skip
        with self._strategy.scope():
            return tf.Variable(tf.zeros([size]), trainable=False, **by_replica)
