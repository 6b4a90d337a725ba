"""One layer applied repeatedly: the recurrence over depth of Dehghani et al. (2019, arXiv:1807.03819).

With adaptive computation time (Graves 2016, arXiv:1603.08983) each position decides after how many steps it halts.

Legend: B batch, T length, D width. In a decoding step: N rows of one position each; a tensor named only `x` is
(B, T, D) or (N, D). In formulas, steps are numbered from 1, as in the papers.
"""

import dataclasses
from collections.abc import Callable
from typing import Any

import keras
from keras import ops

from t2t.layers.cache import StepCache
from t2t.layers.contexts import layer_pass
from t2t.layers.costs import add_summed_cost, counted
from t2t.layers.dropout import seed_of_step
from t2t.layers.positions import Positions
from t2t.layers.residual import build_all
from t2t.layers.sinusoids import sinusoids

Transform = Callable[[Any, Any], Any]
"""A step's layer: `transform(x, seed) -> x`."""


class Recurrence(keras.layers.Layer):
    """H^t = layer(H^(t-1) + P^t) for t = 1 .. `steps` (section 2.1, equations 4 to 7), the same layer in each step.

    P^t is the sum of a vector of the position and one of the step. The caller owns the layer, and must call
    `set_passes` on it if it reads earlier positions.

    Args:
        steps: number of steps.
        layout: of the sinusoids of steps, see `sinusoids`.
        positions: adds the vectors of positions; None if the layer itself encodes positions.
        halting: lets each position choose its number of steps; None for all steps.
    """

    def __init__(
        self, steps: int, layout: str, positions: Positions | None, halting: "Halting | None" = None, **kwargs
    ):
        super().__init__(**kwargs)
        self.steps, self.layout, self.positions, self.halting = steps, layout, positions, halting

    def build(self, input_shape):
        """Builds the parts for (B, T, D)."""
        build_all((self.positions, self.halting), input_shape)
        self.step_vectors = sinusoids(self.steps + 1, input_shape[-1], self.layout)[1:]

    def call(self, x, keep_BT=None, *, transform: Transform, cache: StepCache | None = None, seed=None):
        """Returns `x` after all steps; halting adds its cost within `gathered_costs`.

        Args:
            x: (B, T, D), or with a cache (N, D).
            keep_BT: (B, T) bool, True at data; None for all.
            transform: the layer of a step.
            cache: if `x` is the position of a decoding step.
            seed: of dropout, with different masks in each step.
        """
        run = Run(self, transform, cache, seed)
        if self.halting is not None:
            return self.halting(x, keep_BT, run=run)
        for step in range(self.steps):
            x = run.advance(step, run.add_signals(step, x))
        return x


@dataclasses.dataclass(frozen=True)
class Run:
    """One run of a recurrence; not a tuple, in which Keras would not allow tensors beside other objects."""

    recurrence: Recurrence
    transform: Transform
    cache: StepCache | None
    seed: Any

    def add_signals(self, step: int, x):
        """Returns x + P^t for `step`, from 0."""
        if self.recurrence.positions is not None:
            x = self.recurrence.positions(x, cache=self.cache)
        return x + ops.cast(self.recurrence.step_vectors[step], x.dtype)

    def advance(self, step: int, x):
        """Returns the layer's output for `x`, which has the signals of `step`, from 0."""
        seed = seed_of_step(self.seed, step)
        with layer_pass(step):
            return self.transform(x, seed)


class Halting(keras.layers.Layer):
    """Adaptive computation time of each position: Graves 2016, equations 5 to 14, at most M steps.

    In step n a position that still runs has a halting probability h_n = sigmoid(w s_n + b), where s_n is its state with
    the signals of the step. It halts in step N, the first in which h_1 + .. + h_N is at least 1 - epsilon, or M:

        p_n = h_n for n < N,  p_N = R = 1 - (h_1 + .. + h_(N-1)),  output = sum over n of p_n H^n

    From then on its state is this output. A position costs `weight` * (N + R) nats. Halting is computed in float32.

    Args:
        steps: M.
        epsilon: allows a position to halt after its first step.
        bias: initial value of b.
        weight: of the cost, tau.
    """

    def __init__(self, steps: int, epsilon: float, bias: float, weight: float, **kwargs):
        super().__init__(**kwargs)
        self.steps, self.threshold, self.weight = steps, 1.0 - epsilon, weight
        constant = keras.initializers.Constant(bias)
        self.unit = keras.layers.Dense(1, bias_initializer=constant, dtype="float32", name="unit")

    def build(self, input_shape):
        """Builds the unit for (B, T, D)."""
        self.unit.build(input_shape)

    def call(self, x, keep_BT=None, *, run: Run):
        """Returns the outputs, as `x`; (B, T, D), or with a cache (N, D)."""
        runs = ops.ones(ops.shape(x)[:-1], "bool") if keep_BT is None else counted(keep_BT)
        total = ponder = ops.zeros(ops.shape(x)[:-1], "float32")
        output = ops.zeros(ops.shape(x), "float32")
        for step in range(self.steps):
            signalled = run.add_signals(step, x)
            h = ops.sigmoid(self.unit(ops.cast(signalled, "float32"))[..., 0])
            fresh = run.advance(step, signalled)
            halts = runs if step == self.steps - 1 else ops.logical_and(runs, total + h >= self.threshold)
            p = ops.where(runs, ops.where(halts, 1.0 - total, h), 0.0)
            ponder = ponder + ops.cast(runs, "float32") + ops.where(halts, p, 0.0)
            total, output = total + p, output + p[..., None] * ops.cast(fresh, "float32")
            runs = ops.logical_and(runs, ops.logical_not(halts))
            x = ops.where(runs[..., None], fresh, ops.cast(output, fresh.dtype))
        add_summed_cost(self.weight * ops.sum(ponder))
        return x
