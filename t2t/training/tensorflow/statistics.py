"""How statistics change in an update: variables that forward passes in training assign, see `local_gradient`.

Legend: Q numbers in all statistics together.
"""

from collections.abc import Sequence
from typing import Any

import tensorflow as tf


class StatisticsUpdate:
    """Adds changes to statistics, the same on all replicas.

    Args:
        strategy: in whose scope the variables were created.
        variables: the untrained ones.
    """

    def __init__(self, strategy: tf.distribute.Strategy, variables: Sequence[tf.Variable]):
        self._strategy, self._variables = strategy, variables

    def size(self, numbers: Sequence[int]) -> int:
        """Returns the total size of the variables with these indices."""
        return sum(self._variables[number].shape.num_elements() for number in numbers)

    def cut(self, numbers: Sequence[int], *changes: tf.Tensor) -> list[tf.Tensor]:
        """On one replica: splits the concatenated changes (Q,) into one tensor per variable; [] without any."""
        shapes = [self._variables[number].shape for number in numbers]
        pieces = [piece for change_Q in changes for piece in tf.split(change_Q, [s.num_elements() for s in shapes])]
        return [tf.reshape(piece, shape) for piece, shape in zip(pieces, shapes, strict=True)]

    def across(self, numbers: Sequence[int], changes: Sequence[Any]) -> None:
        """Across replicas: adds what `cut` returned."""
        for number, change in zip(numbers, changes, strict=True):
            update = self._strategy.extended.update
            update(self._variables[number], lambda v, added: v.assign_add(added), args=(change,), group=False)
