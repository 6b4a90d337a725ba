"""Shake-Shake regularisation: Gastaldi 2017 (arXiv:1705.07485), the networks of section 2.1.

The first convolution is the modality's.

Legend: B batch, Y rows, X columns, D channels of the first stage, E channels of the last.
"""

from typing import Any

from keras import ops

from t2t.hparams.shake_shake import ShakeShakeHParams
from t2t.layers.batch_norm import BatchNorm
from t2t.layers.shake_shake import ShakeBlock
from t2t.models.base import SequenceModel
from t2t.registry import register_model
from t2t.specs.constants import INPUTS
from t2t.specs.features import FeatureKind, ProblemSpec


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

    def body(self, features: dict[str, Any], seed=None):
        """Returns the mean of the last stage over positions, (B, E)."""
        x_BYXD = self.norm(self.source_embedding.grid(features[INPUTS], seed=seed), seed=seed)
        for blocks in self.stages:
            for block in blocks:
                x_BYXD = block(x_BYXD, seed=seed)
        return ops.mean(ops.relu(x_BYXD), axis=(1, 2))
