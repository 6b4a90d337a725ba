"""Xception (Chollet 2017, figure 5), or with Tensor2Tensor's exit and norms, on images and, in one dimension, on text.

Legend: B batch, Y rows, X columns, S source length, D width, E width of the output.
"""

from typing import Any

from keras import ops

from t2t.errors import UserError
from t2t.hparams.xception import XceptionHParams
from t2t.layers.dropout import Dropout
from t2t.layers.modalities.image import ImageBottom
from t2t.layers.pooling import mean_of_kept
from t2t.layers.residual import build_all
from t2t.layers.xception import DownBlock, MiddleBlock, SeparableUnit
from t2t.models.base import READ_AS_VECTORS, SequenceModel
from t2t.registry import register_model
from t2t.specs.constants import INPUTS
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
                f"which its windows have other shapes; train them apart, or another model"
            )
        return found.pop()

    def build(self, input_shape=None):
        """Creates every weight."""
        self.build_modality_weights()
        build_all((*self.middle, self.down), (None, None, None, self.hparams.hidden_size))
        for unit, channels in zip(self.exit, self.hparams.exit_sizes[1:3], strict=True):
            unit.build((None, None, None, channels))
        self.output_dropout.build()

    def body(self, features: dict[str, Any], seed=None):
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
