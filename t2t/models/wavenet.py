"""WaveNet, in the order of section 2 of van den Oord et al. (2016, arXiv:1609.03499).

The samples of a waveform are the tokens of a sequence: their 256 mu-law codes (section 2.2), see
`t2t.problems.speech_generation`.

Legend: B batch, S source length, T target length, D residual channels, L blocks, N rows decoded together.
"""

from typing import Any

from keras import ops

from t2t.hparams.wavenet import WaveNetHParams
from t2t.layers.beams import repeat_sentences
from t2t.layers.cache import StepCache
from t2t.layers.convolution import Convolution
from t2t.layers.pooling import mean_of_kept
from t2t.layers.residual import build_all
from t2t.layers.wavenet import GatedBlock
from t2t.models.base import READ_AS_VECTORS
from t2t.models.encoder_decoder import EncoderDecoder
from t2t.registry import register_model
from t2t.specs.constants import INPUTS
from t2t.specs.features import ProblemSpec

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

    def encode(self, features: dict[str, Any], seed=None):
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

    def _conditions(self, ids, encoded, cache: StepCache | None) -> list[Any]:
        """Returns the condition that each block adds to its gates: (B, 1, 2 D), or with a cache (N, 2 D)."""
        if encoded is None:
            return [None] * len(self.blocks)
        if cache is not None:
            encoded = repeat_sentences(encoded[:, 0], ops.shape(ids)[0])
        return ops.split(encoded, len(self.blocks), axis=-1)
