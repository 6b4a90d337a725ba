"""Hparams of Xception: Tensor2Tensor's sets and one for small images.

Source of the values, unless a line says otherwise: Tensor2Tensor's sets of these names.
"""

from dataclasses import dataclass

from t2t.hparams.base import HParams
from t2t.hparams.field import param
from t2t.hparams.sections import ModelHParams
from t2t.registry import register_hparams


@dataclass(kw_only=True)
class XceptionHParams(ModelHParams):
    """Middle blocks of one width, and an exit flow that widens."""

    kernel_size: int = param(3, "Positions a side that a convolution sees.", minimum=1)
    dropout: float = param(0.2, "Dropout on the output of each middle block, a fraction.", minimum=0.0, maximum=0.99)

    @property
    def output_size(self) -> int:
        """Channels of what the exit flow gives: two and a half times the width, as the paper's 728 become 2,048."""
        return int(2.5 * self.hidden_size)


@register_hparams
def xception_base() -> HParams:
    """8 middle blocks of 768 channels behind the entry flow, for images of 200 pixels a side and more."""
    return _optimised(HParams(XceptionHParams(hidden_size=768, num_hidden_layers=8, input_modality="xception_image")))


@register_hparams
def xception_tiny() -> HParams:
    """2 middle blocks of 64 channels on the pixels themselves: small images, or text of a few words."""
    return _optimised(HParams(XceptionHParams(hidden_size=64, num_hidden_layers=2)))


@register_hparams
def xception_mnist() -> HParams:
    """Learns digits of 28 x 28 pixels in minutes on two processor cores."""
    hparams = xception_tiny().replace(hidden_size=32, batch_size=64, train_steps=1000, dropout=0.1)
    return hparams.replace(learning_rate=0.003, learning_rate_warmup_steps=100, ema_decay=0.99)


def _optimised(hparams: HParams) -> HParams:
    # Tensor2Tensor's rate is in units of its own; these are Adam's usual ones.
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
