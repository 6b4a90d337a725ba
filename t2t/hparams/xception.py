"""Hparams of Xception: the paper's set, Tensor2Tensor's and one for small images.

Source of the values, unless a line says otherwise: Chollet 2017, *Xception*, figure 5 and section 4 (`xception`);
Tensor2Tensor's sets of these names (the others).
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
