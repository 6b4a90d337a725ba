"""An optimizer: Lion, whose steps all have the size of the learning rate (Chen et al. 2023, arXiv:2302.06675).

t2t-trainer --hparams=optimizer=my_lion,learning_rate=0.0003,learning_rate_schedule=cosine ...
"""

import keras
from keras import ops

from t2t import register_optimizer


@register_optimizer  # the name is the class's in snake case: my_lion
class MyLion(keras.optimizers.Optimizer):
    """Lion: the sign of a mix of the gradient and its momentum (Chen et al. 2023)."""

    def __init__(self, hparams, **common):
        super().__init__(**common)  # `learning_rate` and `name`; clipping and weight decay are left to hparams
        self.beta1, self.beta2 = hparams.optimizer_adam_beta1, hparams.optimizer_adam_beta2

    def build(self, variables):
        """Creates a momentum for each weight; checkpoints hold it."""
        if not self.built:
            super().build(variables)
            self.momentums = self.add_optimizer_variables(variables, "momentum")

    def update_step(self, gradient, variable, learning_rate):
        """Updates one weight."""
        momentum = self.momentums[self._get_variable_index(variable)]
        mix = self.beta1 * momentum + (1.0 - self.beta1) * gradient
        self.assign_sub(variable, learning_rate * ops.sign(mix))
        self.assign(momentum, self.beta2 * momentum + (1.0 - self.beta2) * gradient)
