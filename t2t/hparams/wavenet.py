"""Hparams of WaveNet: a set with the paper's receptive field, and a small one.

Source of the values, unless a line says otherwise: van den Oord et al., *WaveNet: A Generative Model for Raw Audio*
(2016, arXiv:1609.03499), sections 2 and 3.
"""

from dataclasses import dataclass

from t2t.hparams.base import HParams
from t2t.hparams.field import param
from t2t.registry import register_hparams


@dataclass(kw_only=True)
class WaveNetHParams(HParams):
    """One stack of num_hidden_layers gated blocks with hidden_size residual channels."""

    kernel_size: int = param(2, "Kernel size of the convolutions, in positions.", minimum=2, only_shapes=True)
    dilations: tuple[int, ...] = param(
        (1, 2, 4, 8, 16, 32, 64, 128, 256, 512), "Dilations of successive blocks, repeated in turn."
    )
    skip_channels: int = param(
        0,
        "Channels of the skip connections, whose sum leads to the output; 0 = hidden_size.",
        minimum=0,
        only_shapes=True,
    )

    @property
    def output_size(self) -> int:
        """Channels of the skip connections and of the layers after their sum."""
        return self.skip_channels or self.hidden_size

    def complaints(self) -> list[str]:
        """Checks dilations, and that skip_channels is hidden_size if embedding and output layer share weights."""
        found = []
        if not self.dilations or min(self.dilations) < 1:
            found.append(f"hparam dilations={self.dilations}: give one or more, each 1 or more")
        if self.shared_embedding_and_softmax_weights and self.output_size != self.hidden_size:
            found.append(
                f"hparam skip_channels={self.skip_channels}: with shared_embedding_and_softmax_weights the output "
                f"layer is a table of {self.hidden_size} channels; choose 0, or shared_embedding_and_softmax_weights="
                f"false"
            )
        return found


@register_hparams
def wavenet() -> WaveNetHParams:
    """The paper's stack for speech of several speakers: 50 blocks, dilations 1 to 512, sees 0.3 s of 16 kHz.

    The paper gives neither channels nor how it was trained; those are ours.
    """
    return WaveNetHParams(
        hidden_size=128,
        num_hidden_layers=50,  # five rounds of dilations: the fewest with the 300 ms of section 3.1
        skip_channels=256,
        shared_embedding_and_softmax_weights=False,
        label_smoothing=0.0,
        optimizer_adam_beta2=0.999,
        optimizer_adam_epsilon=1e-8,
        learning_rate_schedule="linear",
        learning_rate=0.001,
        learning_rate_warmup_steps=1000,
        clip_grad_norm=1.0,
        ema_decay=0.999,
        max_length=80_001,  # 5 s, and end of sequence
        batch_size=80_001,
        train_steps=200_000,
        decode_method="sample",  # a search would write the one likeliest sound: silence
        extra_length=80_000,
    )


@register_hparams
def wavenet_tiny() -> WaveNetHParams:
    """For spoken words at 8 kHz on two processor cores: 20 blocks of 32 channels, sees 0.26 s."""
    return wavenet().replace(
        hidden_size=32,
        num_hidden_layers=20,
        skip_channels=128,
        learning_rate=0.003,
        learning_rate_warmup_steps=200,
        ema_decay=0.99,
        max_length=16_001,  # 2 s
        batch_size=16_001,
        train_steps=3000,
        extra_length=16_000,
    )
