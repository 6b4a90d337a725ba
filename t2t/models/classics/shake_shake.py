"""Shake-Shake regularisation: residual blocks of two branches, summed with random weights.

Gastaldi 2017 (arXiv:1705.07485), the networks of section 2.1. The first convolution is the modality's. The sets are as
in Tensor2Tensor's of these names, unless a line says otherwise.

Legend: B batch, Y rows, X columns, C channels in, D channels out, or of the first stage, E channels of the last.
"""

from dataclasses import dataclass

from t2t.hparams.base import HParams, adam_rate
from t2t.registry import register_hparams


@dataclass(kw_only=True)
class ShakeShakeHParams(HParams):
    """`num_hidden_layers` counts successive convolutions, including the first, and the output layer."""

    @property
    def blocks_per_stage(self) -> int:
        """Number of blocks in each of the three stages."""
        return (self.num_hidden_layers - 2) // 6

    @property
    def stage_channels(self) -> tuple[int, int, int]:
        """Channels of the three stages; the second and third halve rows and columns."""
        return self.hidden_size, 2 * self.hidden_size, 4 * self.hidden_size

    @property
    def output_size(self) -> int:
        """Channels of the last stage."""
        return self.stage_channels[-1]

    def complaints(self) -> list[str]:
        """Checks that num_hidden_layers is 6n + 2: three stages of n blocks with two convolutions each."""
        count = self.num_hidden_layers
        if count >= 8 and (count - 2) % 6 == 0:
            return []
        return [f"hparam num_hidden_layers={count}: three stages of n blocks make 6n + 2 layers; choose 8, 14, ..."]


@register_hparams
def shakeshake_small() -> ShakeShakeHParams:
    """The paper's 26 2x32d: 26 layers, 2 branches of 32 channels in the first stage, 2.9 million weights."""
    return ShakeShakeHParams(
        hidden_size=32,
        num_hidden_layers=26,
        label_smoothing=0.0,
        optimizer="momentum",
        weight_decay=1e-4,
        learning_rate_schedule="cosine",
        learning_rate=0.2,
        learning_rate_warmup_steps=100,
        batch_size=128,
        train_steps=700_000,
    )


@register_hparams
def shakeshake_big() -> ShakeShakeHParams:
    """The paper's 26 2x96d: 96 channels in the first stage, 26.2 million weights."""
    return shakeshake_small().replace(hidden_size=96, precision="auto")


@register_hparams
def shake_shake_quick() -> ShakeShakeHParams:
    """shakeshake_small for 1,000 updates of Adam, to try it out."""
    # Adam's other values are those of all Tensor2Tensor's sets. Its decay of the weights is left out.
    return shakeshake_small().replace(
        optimizer="adam",
        optimizer_adam_beta1=0.85,
        optimizer_adam_beta2=0.997,
        optimizer_adam_epsilon=1e-6,
        weight_decay=0.0,
        learning_rate=adam_rate(0.5),
        batch_size=100,
        train_steps=1000,
    )


# === The network ===

import keras
from keras import ops

from t2t.layers.dropout import GivenSeed, SeededLayer
from t2t.layers.image_blocks import PaddedConvolution
from t2t.layers.norm import BatchNorm
from t2t.layers.residual import CompositeLayer
from t2t.layers.tensors import Features
from t2t.models.base import SequenceModel
from t2t.registry import register_model
from t2t.specs import INPUTS
from t2t.specs.features import FeatureKind, ProblemSpec


def mix_branches(first, second, forward, backward):
    """Returns forward * first + (1 - forward) * second, with the gradient of the same sum with `backward`."""
    computed = forward * first + (1.0 - forward) * second
    differentiated = backward * first + (1.0 - backward) * second
    return differentiated + ops.stop_gradient(computed - differentiated)


class ShakeBranch(keras.layers.Layer):
    """ReLU, 3 x 3 convolution, batch norm, twice; the first convolution has the `stride`."""

    def __init__(self, channels: int, stride: int, **kwargs):
        super().__init__(**kwargs)
        self.convolutions = [
            PaddedConvolution(channels, 3, step, dtype=self.dtype_policy, name=f"convolution_{i}")
            for i, step in enumerate((stride, 1))
        ]
        self.norms = [BatchNorm(dtype=self.dtype_policy, name=f"norm_{i}") for i in range(2)]

    def build(self, input_shape):
        """Builds every part for (B, Y, X, C)."""
        shape = tuple(input_shape)
        for convolution, norm in zip(self.convolutions, self.norms, strict=True):
            convolution.build(shape)
            shape = (*shape[:-1], convolution.filters)
            norm.build(shape)

    def call(self, x_BYXC, seed=None):
        """Returns (B, Y / stride, X / stride, D), rounded up."""
        for convolution, norm in zip(self.convolutions, self.norms, strict=True):
            x_BYXC = norm(convolution(ops.relu(x_BYXC)), seed=seed)
        return x_BYXC


class ShiftedShortcut(keras.layers.Layer):
    """The shortcut where the paper's network halves rows and columns (section 2.1).

    Every second pixel of ReLU(x), and of ReLU(x) shifted by one, each through a 1 x 1 convolution to half of the
    channels; then concatenated and normalised.
    """

    def __init__(self, channels: int, **kwargs):
        super().__init__(**kwargs)
        self.convolutions = [
            PaddedConvolution(channels // 2, 1, 2, dtype=self.dtype_policy, name=f"convolution_{i}") for i in range(2)
        ]
        self.norm = BatchNorm(dtype=self.dtype_policy, name="norm")

    def build(self, input_shape):
        """Builds every part for (B, Y, X, C)."""
        for convolution in self.convolutions:
            convolution.build(input_shape)
        self.norm.build((*input_shape[:-1], 2 * self.convolutions[0].filters))

    def call(self, x_BYXC, seed=None):
        """Returns (B, Y / 2, X / 2, D), rounded up; beyond the last row and column there are zeros."""
        x_BYXC = ops.relu(x_BYXC)
        moved_BYXC = ops.pad(x_BYXC[:, 1:, 1:], ((0, 0), (0, 1), (0, 1), (0, 0)))
        halves = [convolve(x) for convolve, x in zip(self.convolutions, (x_BYXC, moved_BYXC), strict=True)]
        return self.norm(ops.concatenate(halves, axis=-1), seed=seed)


class ShakeBlock(CompositeLayer):
    """shortcut(x) + a F(x) + (1 - a) G(x), F and G branches (equation 2).

    In training, a is drawn for each image, uniform in [0, 1), and again for the gradient: the paper's
    Shake-Shake-Image. Otherwise a = 1/2. `stride` 2 halves rows and columns; with `stride` 1, `channels` must be C.
    """

    def __init__(self, channels: int, stride: int, **kwargs):
        super().__init__(**kwargs)
        policy = self.dtype_policy
        self.branches = [ShakeBranch(channels, stride, dtype=policy, name=f"branch_{i}") for i in range(2)]
        self.shortcut = ShiftedShortcut(channels, dtype=policy, name="shortcut") if stride > 1 else None
        self.noise = SeededLayer(name="noise")

    def call(self, x_BYXC, seed=None):
        """Returns (B, Y / stride, X / stride, D), rounded up."""
        first, second = (branch(x_BYXC, seed=seed) for branch in self.branches)
        carried = x_BYXC if self.shortcut is None else self.shortcut(x_BYXC, seed=seed)
        if seed is None:
            return carried + 0.5 * (first + second)
        noise_seed = GivenSeed(self.noise.own_seed(seed))
        shape = (2, ops.shape(x_BYXC)[0], 1, 1, 1)
        weights = ops.cast(keras.random.uniform(shape, dtype="float32", seed=noise_seed), first.dtype)
        return carried + mix_branches(first, second, weights[0], weights[1])


@register_model
class ShakeShake(SequenceModel):
    """Residual networks of two branches with random weights in training (Shake-Shake): classes of small images."""

    hparams_class = ShakeShakeHParams
    accepts_inputs = (FeatureKind.IMAGE,)
    accepts_targets = (FeatureKind.LABEL,)
    autoregressive = False

    def __init__(self, hparams: ShakeShakeHParams, spec: ProblemSpec, dtype: str = "float32", **kwargs):
        super().__init__(hparams, spec, dtype, **kwargs)
        self.norm = BatchNorm(dtype=self.dtype_policy, name="norm")
        self.stages = [
            [
                ShakeBlock(
                    channels,
                    2 if stage > 0 and i == 0 else 1,
                    dtype=self.dtype_policy,
                    name=f"stage_{stage}_block_{i}",
                )
                for i in range(hparams.blocks_per_stage)
            ]
            for stage, channels in enumerate(hparams.stage_channels)
        ]
        self.build()

    def build(self, input_shape=None):
        """Creates every weight."""
        self.build_modality_weights()
        inputs = self.hparams.hidden_size
        self.norm.build((None, None, None, inputs))
        for blocks, channels in zip(self.stages, self.hparams.stage_channels, strict=True):
            for block in blocks:
                block.build((None, None, None, inputs))
                inputs = channels

    def body(self, features: Features, seed=None):
        """Returns the mean of the last stage over positions, (B, E)."""
        x_BYXD = self.norm(self.source_embedding.grid(features[INPUTS], seed=seed), seed=seed)
        for blocks in self.stages:
            for block in blocks:
                x_BYXD = block(x_BYXD, seed=seed)
        return ops.mean(ops.relu(x_BYXD), axis=(1, 2))
