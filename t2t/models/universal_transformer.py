"""The Universal Transformer of Dehghani et al. (2019, arXiv:1807.03819): one layer of each stack, applied repeatedly.

With adaptive computation time (Graves 2016, arXiv:1603.08983) each position decides after how many steps it halts.

Legend: B batch, S source length, T target length, D width. In a decoding step: N rows of one position each; a tensor
named only `x` is (B, T, D) or (N, D). In formulas, steps are numbered from 1, as in the papers.
"""

import dataclasses
import functools
from collections.abc import Callable
from typing import Unpack

import keras
from keras import ops

from t2t.hparams.universal_transformer import UniversalTransformerHParams
from t2t.layers.cache import StepCache
from t2t.layers.dropout import seed_of_step
from t2t.layers.masks import keys_keep
from t2t.layers.mode import add_summed_cost, counted, in_mode
from t2t.layers.positions import Positions, build_positions
from t2t.layers.residual import CompositeLayer
from t2t.layers.sinusoids import sinusoids
from t2t.layers.tensors import Named, Tensor
from t2t.models.transformer import Decoder, DecoderLayer, EncodedSource, Encoder, Transformer
from t2t.registry import register_model

Transform = Callable[[Tensor, Tensor | None], Tensor]
"""A step's layer: `transform(x, seed) -> x`."""


class Recurrence(CompositeLayer):
    """H^t = layer(H^(t-1) + P^t) for t = 1 .. `steps` (section 2.1, equations 4 to 7), the same layer in each step.

    P^t is the sum of a vector of the position and one of the step. The caller owns the layer, whose parts that read
    earlier positions have `passes`, see `CachingLayer`.

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
        """Builds the parts for (B, T, D), and computes the vectors of steps."""
        super().build(input_shape)
        self.step_vectors = sinusoids(self.steps + 1, input_shape[-1], self.layout)[1:]

    def call(self, x, keep_BT=None, *, transform: Transform, cache: StepCache | None = None, seed=None):
        """Returns `x` after all steps; halting adds its cost, see `t2t.layers.mode`.

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
    """One run of a recurrence. It is not a tuple, since Keras allows only tensors in one."""

    recurrence: Recurrence
    transform: Transform
    cache: StepCache | None
    seed: Tensor

    def add_signals(self, step: int, x):
        """Returns x + P^t for `step`, from 0."""
        if self.recurrence.positions is not None:
            x = self.recurrence.positions(x, cache=self.cache)
        return x + ops.cast(self.recurrence.step_vectors[step], x.dtype)

    def advance(self, step: int, x):
        """Returns the layer's output for `x`, which has the signals of `step`, from 0."""
        seed = seed_of_step(self.seed, step)
        with in_mode(layer_pass=step):
            return self.transform(x, seed)


class Halting(CompositeLayer):
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


@register_model
class UniversalTransformer(Transformer):
    """Universal Transformer: each stack repeats one layer, a fixed number of times or until each position stops.

    The layer, self-attention, attention to the source and feed-forward, is the Transformer's (section 2.1).
    """

    hparams_class = UniversalTransformerHParams
    packs_examples = False  # each step adds positions that count from the beginning of the row

    def create_positions(self, **named: Unpack[Named]) -> None:
        """Returns None: positions are added in each step instead, see `Recurrence`."""
        return

    def create_encoder(self, **named: Unpack[Named]) -> "UniversalEncoder":
        """Returns the unbuilt encoder."""
        return UniversalEncoder(self.hparams, **named)

    def create_decoder(self, has_source: bool, **named: Unpack[Named]) -> "UniversalDecoder":
        """Returns the unbuilt decoder."""
        return UniversalDecoder(self.hparams, has_source, **named)


class UniversalEncoder(Encoder):
    """One layer of self-attention and feed-forward, repeated."""

    def __init__(self, hparams: UniversalTransformerHParams, **kwargs):
        super().__init__(hparams, **kwargs)
        self.recurrence = build_recurrence(self, hparams)

    def call(self, x_BSD, keep_BS, number_BS=None, seed=None):
        """Returns (B, S, D); see the base class."""
        keep = keys_keep(keep_BS, number_BS, number_BS)

        def transform(x_BSD, seed):
            return self.layers_[0](x_BSD, keep, keep_BS, seed=seed)

        x_BSD = self.recurrence(x_BSD, keep_BS, transform=transform, seed=seed)
        return self.final_norm(x_BSD) if self.final_norm is not None else x_BSD


class UniversalDecoder(Decoder):
    """One layer of masked self-attention, attention to the encoder's output and feed-forward, repeated.

    In decoding, each step of the recurrence caches its own keys and values of earlier positions.
    """

    def __init__(self, hparams: UniversalTransformerHParams, has_source: bool, **kwargs):
        layer = functools.partial(DecoderLayer, passes=hparams.recurrence_steps)
        super().__init__(hparams, has_source, layer, **kwargs)
        self.recurrence = build_recurrence(self, hparams)

    def call(
        self, x, source: EncodedSource | None, keep_BT=None, number_BT=None, cache: StepCache | None = None, seed=None
    ):
        """Returns (B, T, D), or with a cache (N, D); see the base class."""
        keys_values, source_keep, target_keep = self.masks(source, keep_BT, number_BT)

        def transform(x, seed):
            return self.layers_[0](x, keys_values[0], source_keep, target_keep, keep_BT, cache=cache, seed=seed)

        x = self.recurrence(x, keep_BT, transform=transform, cache=cache, seed=seed)
        return self.final_norm(x) if self.final_norm is not None else x


def build_recurrence(owner: keras.layers.Layer, hparams: UniversalTransformerHParams) -> Recurrence:
    """Returns the recurrence of `owner`."""
    policy, steps, layout = owner.dtype_policy, hparams.recurrence_steps, hparams.sinusoid_layout
    sizes = (hparams.max_length, hparams.hidden_size)
    positions = build_positions(hparams.positions, *sizes, layout, dtype=policy, name="positions")
    halting = None
    if hparams.recurrence_type == "act":
        settings = (hparams.act_epsilon, hparams.act_halting_bias_init, hparams.act_loss_weight)
        halting = Halting(steps, *settings, dtype=policy, name="halting")
    return Recurrence(steps, layout, positions, halting, dtype=policy, name="recurrence")
