"""The sums over the micro-batches of an update, on each replica.

Legend: P numbers in all weights together, Q in all statistics of a problem together.
"""

import tensorflow as tf


class MicroBatchSums:
    """Variables of each replica for the gradient (P,), three counts (3,) and statistics (Q,); zero between updates.

    Args:
        strategy: of the replicas.
        size: P.
    """

    def __init__(self, strategy: tf.distribute.Strategy, size: int):
        self._strategy, self._size = strategy, size
        self._shared: list[tf.Variable] = []
        self._statistics: dict[str, list[tf.Variable]] = {}

    def prepare(self, problem: str, statistics: int) -> None:
        """Creates the variables of a problem with Q `statistics`, unless they exist; none if Q is 0."""
        if not self._shared:
            self._shared = [self._zeros(self._size), self._zeros(3)]
        if problem not in self._statistics:
            self._statistics[problem] = [self._zeros(statistics)] if statistics else []

    def variables_of(self, problem: str) -> list[tf.Variable]:
        """Returns the variables of a problem for which `prepare` was called."""
        return self._shared + self._statistics[problem]

    def _zeros(self, size: int) -> tf.Variable:
        by_replica = {
            "synchronization": tf.VariableSynchronization.ON_READ, "aggregation": tf.VariableAggregation.SUM,
        }  # fmt: skip
        with self._strategy.scope():
            return tf.Variable(tf.zeros([size]), trainable=False, **by_replica)
