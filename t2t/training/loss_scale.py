"""Dynamic loss scaling for float16 (Micikevicius et al. 2018, section 3.2).

The loss is multiplied so that small gradients do not underflow; the step divides them again. The factor halves when a
gradient overflows, down to `MINIMUM_SCALE`, and doubles after `GROWTH_INTERVAL` updates without one.
"""

from typing import Any

import keras
from keras import ops

INITIAL_SCALE = 2.0**15
GROWTH_INTERVAL = 2000
MINIMUM_SCALE = 1.0


class LossScale:
    """The factor of the loss; always 1 if not `dynamic`. It doubles after `growth_interval` finite gradients."""

    def __init__(self, dynamic: bool, growth_interval: int = GROWTH_INTERVAL):
        self.dynamic, self._growth_interval = dynamic, growth_interval
        self.variables: list[keras.Variable] = []
        if dynamic:
            self._scale = keras.Variable(INITIAL_SCALE, dtype="float32", trainable=False, name="loss_scale")
            self._good = keras.Variable(0, dtype="int32", trainable=False, name="loss_scale_good_updates")
            self.variables = [self._scale, self._good]

    def value(self) -> Any:
        """Returns the factor, () float32."""
        return self._scale.value * 1.0 if self.dynamic else ops.convert_to_tensor(1.0)  # a tensor, not the variable

    def update(self, finite: Any, applies: Any = True) -> None:
        """Updates the loss scale from whether the last gradient was finite; unchanged by warm-up steps (`applies`)."""
        if not self.dynamic:
            return
        good = ops.where(finite, self._good.value + 1, 0)
        grow = good >= self._growth_interval
        smaller = ops.maximum(self._scale.value * 0.5, MINIMUM_SCALE)
        scale = ops.where(finite, ops.where(grow, self._scale.value * 2.0, self._scale.value), smaller)
        good = ops.where(applies, ops.where(grow, 0, good), self._good.value)
        self._scale.assign(ops.where(applies, scale, self._scale.value))
        self._good.assign(good)
