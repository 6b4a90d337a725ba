"""Hparams of Shake-Shake, as in Tensor2Tensor's sets of these names, unless a line says otherwise."""

from dataclasses import dataclass

from t2t.hparams.base import HParams
from t2t.hparams.tensor2tensor_rates import adam_rate
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
