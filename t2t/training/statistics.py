"""How statistics change in an update: variables that forward passes in training assign, see `local_gradient`.

Legend: Q numbers in all statistics together.
"""

from collections.abc import Sequence
from typing import Any

import tensorflow as tf


class StatisticsUpdate:
    """Adds changes to statistics, the same on all replicas.

    Args:
        strategy: under whose scope the variables are made.
        variables: those that are not trained.
    """

    def __init__(self, strategy: tf.distribute.Strategy, variables: Sequence[tf.Variable]):
        self._strategy, self._variables = strategy, variables

    def size(self, numbers: Sequence[int]) -> int:
        """Returns how many numbers there are in the variables of these numbers."""
        return sum(self._variables[number].shape.num_elements() for number in numbers)

    def cut(self, numbers: Sequence[int], change_Q: tf.Tensor) -> list[tf.Tensor]:
        """On one replica: returns the change of each variable of these numbers."""
        variables = [self._variables[number] for number in numbers]
        pieces = tf.split(change_Q, [variable.shape.num_elements() for variable in variables]) if variables else []
        return [tf.reshape(piece, variable.shape) for piece, variable in zip(pieces, variables, strict=True)]

    def across(self, numbers: Sequence[int], changes: Sequence[Any]) -> None:
        """Across replicas: adds what `cut` returned."""
        for number, change in zip(numbers, changes, strict=True):
            update = self._strategy.extended.update
            update(self._variables[number], lambda v, added: v.assign_add(added), args=(change,), group=False)
