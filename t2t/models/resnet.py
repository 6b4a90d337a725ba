"""Residual networks: He et al. 2015, *Deep residual learning for image recognition*, and their pre-activation of 2016.

The first convolution is the modality's.

Legend: B batch, Y rows, X columns, D channels of the first stage, E channels of the last.
"""

from typing import Any

from keras import ops

from t2t.hparams.resnet import ResnetHParams
from t2t.layers.batch_norm import BatchNorm
from t2t.layers.resnet import ResidualBlock
from t2t.models.base import SequenceModel
from t2t.registry import register_model
from t2t.specs.constants import INPUTS
from t2t.specs.features import FeatureKind, ProblemSpec


@register_model
class Resnet(SequenceModel):
    """Residual networks of convolutions and batch norms: classes of images."""

    hparams_class = ResnetHParams
    accepts_inputs = (FeatureKind.IMAGE,)
    accepts_targets = (FeatureKind.LABEL,)
    autoregressive = False

    def __init__(self, hparams: ResnetHParams, spec: ProblemSpec, dtype: str = "float32", **kwargs):
        super().__init__(hparams, spec, dtype, **kwargs)
        self.blocks, channels = [], hparams.hidden_size
        for stage, size in enumerate(hparams.layer_sizes):
            inner = hparams.hidden_size * 2**stage
            for i in range(size):
                block = ResidualBlock(
                    channels,
                    inner,
                    inner * hparams.expansion,
                    2 if stage > 0 and i == 0 else 1,
                    hparams.preactivation,
                    dtype=self.dtype_policy,
                    name=f"stage_{stage}_block_{i}",
                )
                self.blocks.append(block)
                channels = inner * hparams.expansion
        self.norm = BatchNorm(dtype=self.dtype_policy, name="norm")
        self.build()

    def build(self, input_shape=None):
        """Creates every weight."""
        self.build_modality_weights()
        for block in self.blocks:
            block.build((None, None, None, block.inputs))
        self.norm.build((None, None, None, self._normed_channels))

    @property
    def _normed_channels(self) -> int:
        """Channels of the norm outside blocks: of the last stage with pre-activation, else of the first convolution."""
        return self.hparams.output_size if self.hparams.preactivation else self.hparams.hidden_size

    def body(self, features: dict[str, Any], seed=None):
        """Returns the mean of the last stage over positions, (B, E)."""
        x_BYXD = self.source_embedding.grid(features[INPUTS], seed=seed)
        if not self.hparams.preactivation:
            x_BYXD = ops.relu(self.norm(x_BYXD, seed=seed))
        if self.hparams.stem_pooling:
            padded = ops.pad(x_BYXD, ((0, 0), (1, 1), (1, 1), (0, 0)), constant_values=-1e4)
            x_BYXD = ops.max_pool(padded, 3, 2, padding="valid")
        for block in self.blocks:
            x_BYXD = block(x_BYXD, seed=seed)
        if self.hparams.preactivation:
            x_BYXD = ops.relu(self.norm(x_BYXD, seed=seed))
        return ops.mean(x_BYXD, axis=(1, 2))
