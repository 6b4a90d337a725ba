"""WaveNet: a set with the paper's receptive field, and a small one.

The samples of a waveform are the tokens of a sequence: their 256 mu-law codes (section 2.2), see
`t2t.problems.speech_files`. Source of the network, in the order of its section 2, and of the values, unless a line
says otherwise: van den Oord et al., *WaveNet: A Generative Model for Raw Audio* (2016, arXiv:1609.03499), sections 2
and 3.

Legend: B batch, S source length, T target length, D residual channels, K skip channels, L blocks, N rows decoded
together.
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


# === The network ===

from keras import ops

from t2t.layers.beams import repeat_sentences
from t2t.layers.cache import StepCache
from t2t.layers.convolution import Convolution
from t2t.layers.masks import mean_of_kept
from t2t.layers.residual import CompositeLayer, build_all
from t2t.layers.tensors import Features, Tensor
from t2t.models.base import READ_AS_VECTORS, EncoderDecoder
from t2t.registry import register_model
from t2t.specs import INPUTS
from t2t.specs.features import ProblemSpec


class GatedBlock(CompositeLayer):
    """z = tanh(W_f * x + V_f h) sigmoid(W_g * x + V_g h); the next block reads x + W_r z, the output W_s z (figure 4).

    The last block of a stack (`is_last`) has no W_r. The condition V h is an argument of the call (section 2.5).
    """

    def __init__(
        self, channels: int, skip_channels: int, kernel_size: int, dilation: int, is_last: bool = False, **kwargs
    ):
        super().__init__(**kwargs)
        policy = self.dtype_policy
        self.window = Convolution(
            2 * channels, kernel_size, dilation=dilation, causal=True, dtype=policy, name="window"
        )
        self.skip = Convolution(skip_channels, 1, dtype=policy, name="skip")
        self.residual = None if is_last else Convolution(channels, 1, dtype=policy, name="residual")

    def call(self, x, condition=None, cache: StepCache | None = None):
        """Returns the input of the next block, (B, T, D), and the skip output, (B, T, K).

        Args:
            x: (B, T, D); with a cache (N, D), and results (N, D) and (N, K).
            condition: [V_f h; V_g h], (B, 1, 2 D); with a cache (N, 2 D). None for none.
            cache: in a decoding step.
        """
        gates = self.window(x, cache=cache)
        content, gate = ops.split(gates if condition is None else gates + condition, 2, axis=-1)
        z = ops.tanh(content) * ops.sigmoid(gate)
        following = x if self.residual is None else x + self.residual(z, cache=cache)
        return following, self.skip(z, cache=cache)


CONDITION_WINDOW = 5
"""Window, in positions, of the convolution over the inputs before their mean is taken."""


@register_model("wavenet")
class WaveNet(EncoderDecoder):
    """WaveNet: gated, dilated, causal convolutions, for sound; inputs condition all positions alike."""

    hparams_class = WaveNetHParams
    accepts_inputs = (*READ_AS_VECTORS, None)

    def __init__(self, hparams: WaveNetHParams, spec: ProblemSpec, dtype: str = "float32", **kwargs):
        super().__init__(hparams, spec, dtype, **kwargs)
        policy, width, size = self.dtype_policy, hparams.hidden_size, hparams.kernel_size
        # Dilated causal convolutions (section 2.1), gates (2.3), residual and skip connections (2.4)
        self.first = Convolution(width, size, causal=True, dtype=policy, name="first")
        depth, dilations = hparams.num_hidden_layers, hparams.dilations
        self.blocks = [
            GatedBlock(
                width, hparams.output_size, size, dilations[i % len(dilations)], i == depth - 1,
                dtype=policy, name=f"block_{i}",
            )
            for i in range(depth)
        ]  # fmt: skip
        self.output_map = Convolution(hparams.output_size, 1, dtype=policy, name="output_map")
        # Global conditioning (section 2.5)
        self.read: Convolution | None = None
        self.condition: Convolution | None = None
        if spec.inputs:
            self.read = Convolution(width, CONDITION_WINDOW, dtype=policy, name="read")
            self.condition = Convolution(2 * width * depth, 1, use_bias=False, dtype=policy, name="condition")
        self.build()

    def build(self, input_shape=None):
        """Creates every weight."""
        self.build_modality_weights()
        build_all((self.first, *self.blocks, self.read, self.condition), (None, None, self.hparams.hidden_size))
        self.output_map.build((None, None, self.hparams.output_size))

    def encode(self, features: Features, seed=None):
        """Returns the condition V h of all blocks side by side, (B, 1, L * 2 D); None without inputs."""
        if self.read is None or self.condition is None:
            return None
        inputs = features[INPUTS]
        keep_BS = self.source_embedding.keep(inputs)
        x_BSD = self.read(self.source_embedding(inputs, seed=seed), keep_BS)
        h_BD = mean_of_kept(ops.relu(x_BSD), keep_BS)
        return self.condition(h_BD[:, None])

    def decode(self, ids, encoded, keep_BT=None, cache: StepCache | None = None, seed=None):
        """Returns the states from which the next samples are predicted; see the base class."""
        conditions = self._conditions(ids, encoded, cache)
        x = self.first(self.target_embedding.before(ids, seed=seed), cache=cache)
        skipped = None
        for block, condition in zip(self.blocks, conditions, strict=True):
            x, skip = block(x, condition, cache=cache)
            skipped = skip if skipped is None else skipped + skip
        # ReLU, 1 x 1, ReLU; the last 1 x 1 and the softmax are the output layer (figure 4).
        return ops.relu(self.output_map(ops.relu(skipped), cache=cache))

    def _conditions(self, ids, encoded, cache: StepCache | None) -> list[Tensor | None]:
        """Returns the condition that each block adds to its gates: (B, 1, 2 D), or with a cache (N, 2 D)."""
        if encoded is None:
            return [None] * len(self.blocks)
        if cache is not None:
            encoded = repeat_sentences(encoded[:, 0], ops.shape(ids)[0])
        return ops.split(encoded, len(self.blocks), axis=-1)
