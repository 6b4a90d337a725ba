"""Xception (Chollet 2017, figure 5), or with Tensor2Tensor's exit and norms, on images and, in one dimension, on text.

Source of the values, unless a line says otherwise: Chollet 2017, *Xception*, figure 5 and section 4 (`xception`);
Tensor2Tensor's sets of these names (the others).

Legend: B batch, Y rows, X columns, S source length, D width, E width of the output.
"""

from dataclasses import dataclass

from t2t.hparams.base import HParams
from t2t.hparams.field import param, training_fraction
from t2t.registry import register_hparams


@dataclass(kw_only=True)
class XceptionHParams(HParams):
    """Middle blocks of constant width, and an exit flow of increasing width."""

    kernel_size: int = param(3, "Kernel size of the convolutions, in positions per side.", minimum=2, only_shapes=True)
    exit_channels: tuple[int, ...] = param(
        (0, 0, 0, 0), "Channels of the exit flow's four convolutions; 0 = 1, 1.25, 2 and 2.5 times hidden_size, as in "
        "Tensor2Tensor.", only_shapes=True,
    )  # fmt: skip
    variant: str = param(
        "tensor2tensor", "Variant. tensor2tensor: normalizes sums of middle blocks, has a ReLU before the second to "
        "last convolution; paper: has neither.", choices=("tensor2tensor", "paper"),
    )  # fmt: skip
    dropout: float = training_fraction(0.2, "Dropout rate on the output of each middle block, a fraction.")
    output_dropout: float = training_fraction(0.0, "Dropout rate before the output layer, a fraction.")

    @property
    def exit_sizes(self) -> tuple[int, ...]:
        """Channels of the exit flow's four convolutions."""
        factors = (1, 1.25, 2, 2.5)
        return tuple(
            given or int(factor * self.hidden_size) for given, factor in zip(self.exit_channels, factors, strict=True)
        )

    @property
    def output_size(self) -> int:
        """Channels of the output of the exit flow."""
        return self.exit_sizes[-1]

    def complaints(self) -> list[str]:
        """Checks that exit_channels has four numbers."""
        sizes = self.exit_channels
        if len(sizes) == 4 and min(sizes) >= 0:
            return []
        return [f"hparam exit_channels={sizes}: the exit flow has four convolutions; give four numbers, 0 or more"]


@register_hparams
def xception() -> XceptionHParams:
    """The paper's model for ImageNet: 8 middle blocks of 728 channels, 22.9 million weights for 1,000 classes."""
    # The paper's momentum at 0.045 falls every other epoch; this is the Adam of the other sets. It averages weights.
    return xception_base().replace(
        hidden_size=728,
        exit_channels=(728, 1024, 1536, 2048),
        variant="paper",
        dropout=0.0,
        output_dropout=0.5,
        label_smoothing=0.0,
        ema_decay=0.9999,
    )


@register_hparams
def xception_base() -> XceptionHParams:
    """8 middle blocks of 768 channels behind the entry flow, for images of 200 pixels a side and more."""
    return _optimised(XceptionHParams(hidden_size=768, num_hidden_layers=8, input_modality="xception_image"))


@register_hparams
def xception_tiny() -> XceptionHParams:
    """2 middle blocks of 64 channels on the pixels themselves: small images, or text of a few words."""
    return _optimised(XceptionHParams(hidden_size=64, num_hidden_layers=2))


@register_hparams
def xception_mnist() -> XceptionHParams:
    """Learns digits of 28 x 28 pixels in minutes on two processor cores."""
    return xception_tiny().replace(
        hidden_size=32, dropout=0.1, batch_size=64, learning_rate=0.003, learning_rate_warmup_steps=100,
        train_steps=1000, ema_decay=0.99,
    )  # fmt: skip


def _optimised(hparams: XceptionHParams) -> XceptionHParams:
    # Tensor2Tensor's rate comes to 0.0001 throughout, after 3,000 updates; this is Adam's usual one, and falls. Its
    # xception_tiny has batches of 2.
    return hparams.replace(
        batch_size=128,
        optimizer_adam_beta1=0.85,
        optimizer_adam_beta2=0.997,
        optimizer_adam_epsilon=1e-6,
        clip_grad_norm=2.0,
        learning_rate_schedule="linear",
        learning_rate=0.001,
        learning_rate_warmup_steps=1000,
    )


# === The network ===

from keras import ops

from t2t.errors import UserError
from t2t.layers.dropout import Dropout
from t2t.layers.image_blocks import DownBlock, MiddleBlock, SeparableUnit
from t2t.layers.masks import mean_of_kept
from t2t.layers.modalities.image import ImageBottom
from t2t.layers.residual import build_all
from t2t.layers.tensors import Features
from t2t.models.base import READ_AS_VECTORS, SequenceModel
from t2t.registry import register_model
from t2t.specs import INPUTS
from t2t.specs.features import FeatureKind, ProblemSpec


@register_model
class Xception(SequenceModel):
    """Separable convolutions in residual blocks: classes of images, or of sequences by convolutions along them."""

    hparams_class = XceptionHParams
    accepts_inputs = READ_AS_VECTORS
    accepts_targets = (FeatureKind.LABEL,)
    autoregressive = False

    def __init__(self, hparams: XceptionHParams, spec: ProblemSpec, dtype: str = "float32", **kwargs):
        super().__init__(hparams, spec, dtype, **kwargs)
        width, side, sizes = hparams.hidden_size, hparams.kernel_size, hparams.exit_sizes
        self.sees_images = self._sees_images()
        kernel = (side, side) if self.sees_images else (side, 1)
        policy, published = self.dtype_policy, hparams.variant == "paper"
        self.middle = [
            MiddleBlock(width, kernel, hparams.dropout, not published, dtype=policy, name=f"middle_{i}")
            for i in range(hparams.num_hidden_layers)
        ]
        self.down = DownBlock((sizes[0], sizes[1]), kernel, dtype=policy, name="exit_down")
        self.exit = [
            SeparableUnit(wide, kernel, first_relu=i > 0 or not published, dtype=policy, name=f"exit_{i}")
            for i, wide in enumerate(sizes[2:])
        ]
        self.output_dropout = Dropout(hparams.output_dropout, dtype=policy, name="output_dropout")
        self.build()

    def _sees_images(self) -> bool:
        """Returns whether inputs are images; sequences are processed as grids of one column."""
        sources = [end.modalities.source for end in self.problem_modalities.values()] or [self.source_embedding]
        found = {isinstance(source, ImageBottom) for source in sources}
        if len(found) > 1:
            raise UserError(
                f"model Xception with --problems={self.spec.name}: some inputs are images and some are sequences, for "
                "which its windows have other shapes",
                "train them apart, or another model",
            )
        return found.pop()

    def build(self, input_shape=None):
        """Creates every weight."""
        self.build_modality_weights()
        build_all((*self.middle, self.down), (None, None, None, self.hparams.hidden_size))
        for unit, channels in zip(self.exit, self.hparams.exit_sizes[1:3], strict=True):
            unit.build((None, None, None, channels))
        self.output_dropout.build()

    def body(self, features: Features, seed=None):
        """Returns the mean of the exit flow's output over positions, (B, E)."""
        inputs, keep = features[INPUTS], None
        if self.sees_images:
            x = self.source_embedding.grid(inputs, seed=seed)
        else:
            x = self.source_embedding(inputs, seed=seed)[:, :, None]
            keep = self.source_embedding.keep(inputs)[:, :, None, None]
        for block in self.middle:
            x = block(x, keep, seed=seed)
        x = self.down(x, keep)
        keep = None if keep is None else keep[:, ::2]
        for unit in self.exit:
            x = unit(x, keep)
        x = ops.relu(x)
        mean_BE = ops.mean(x, axis=(1, 2)) if keep is None else mean_of_kept(x[:, :, 0], keep[:, :, 0, 0])
        return self.output_dropout(mean_BE, seed=seed)
