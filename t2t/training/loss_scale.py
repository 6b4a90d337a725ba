"""Dynamic loss scaling for float16 (Micikevicius et al. 2018, section 3.2).

The loss is multiplied so that small gradients do not underflow; the step divides them again. The factor halves when a
gradient overflows, down to `MINIMUM_SCALE`, and doubles after `GROWTH_INTERVAL` updates without one.
"""

import tensorflow as tf

INITIAL_SCALE = 2.0**15
GROWTH_INTERVAL = 2000
MINIMUM_SCALE = 1.0


class LossScale:
    """The factor; constantly 1 where it is not needed."""

    def __init__(self, dynamic: bool):
        self.dynamic = dynamic
        self.variables: list[tf.Variable] = []
        if dynamic:
            self._scale = tf.Variable(INITIAL_SCALE, trainable=False, name="loss_scale")
            self._good = tf.Variable(0, trainable=False, dtype=tf.int64, name="loss_scale_good_updates")
            self.variables = [self._scale, self._good]

    def value(self) -> tf.Tensor:
        """Returns the factor, () float32."""
        return tf.convert_to_tensor(self._scale) if self.dynamic else tf.constant(1.0)

    def update(self, finite: tf.Tensor, applies: tf.Tensor | bool = True) -> None:
        """Updates the loss scale from whether the last gradient was finite; unchanged by warm-up steps (`applies`)."""
        if not self.dynamic:
            return
        good = tf.where(finite, self._good + 1, tf.zeros_like(self._good))
        grow = good >= GROWTH_INTERVAL
        smaller = tf.maximum(self._scale * 0.5, MINIMUM_SCALE)
        scale = tf.where(finite, tf.where(grow, self._scale * 2.0, self._scale), smaller)
        self._scale.assign(tf.where(applies, scale, self._scale))
        self._good.assign(tf.where(applies, tf.where(grow, tf.zeros_like(good), good), self._good))
