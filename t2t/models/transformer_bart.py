"""The Transformer of BART (Lewis et al. 2020, arXiv:1910.13461) and of translators like it, such as mBART and M2M-100.

Legend: B batch, T length, D width. In a step of decoding: N rows of one position each.
"""

from typing import Unpack

from t2t.hparams.transformer_bart import TransformerBartHParams
from t2t.layers.cache import StepCache
from t2t.layers.norm import build_norm
from t2t.layers.positions import Positions, build_positions
from t2t.layers.residual import CompositeLayer
from t2t.layers.tensors import Named
from t2t.models.transformer import Transformer
from t2t.registry import register_model


@register_model
class TransformerBart(Transformer):
    """The Transformer with BART's embeddings: separate positions for each side, and optional norms."""

    hparams_class = TransformerBartHParams

    def create_positions(self, **named: Unpack[Named]) -> "PlacedEmbeddings":
        """Returns the unbuilt layer of the targets; `build` creates that of the inputs."""
        return PlacedEmbeddings(self.hparams, **named | {"name": "target_positions"})

    def build(self, input_shape=None):
        """Creates every weight."""
        super().build()
        if self.encoder is not None:
            policy = self.dtype_policy
            self.source_positions = PlacedEmbeddings(self.hparams, dtype=policy, name="source_positions")
            self.source_positions.build((None, None, self.hparams.hidden_size))

    def place_source(self, x_BSD, position_BS=None):
        """Returns embedded inputs (B, S, D) with their positions."""
        return self.source_positions(x_BSD, position_BS)


class PlacedEmbeddings(CompositeLayer):
    """Adds positions to embeddings and normalises the sums, each only if the hparams ask for it."""

    def __init__(self, hparams: TransformerBartHParams, **kwargs):
        super().__init__(**kwargs)
        sizes = (hparams.max_length, hparams.hidden_size, hparams.sinusoid_layout, hparams.first_position)
        policy = self.dtype_policy
        self.positions: Positions | None = build_positions(hparams.positions, *sizes, dtype=policy, name="positions")
        self.norm = None
        if hparams.embedding_norm:
            self.norm = build_norm(hparams.norm_type, hparams.norm_epsilon, dtype=policy, name="norm")

    def call(self, x, position_BT=None, cache: StepCache | None = None):
        """Returns `x`, (B, T, D) or with a cache (N, D), with positions added and normalised; see `Positions`."""
        x = self.positions(x, position_BT, cache=cache) if self.positions is not None else x
        return self.norm(x) if self.norm is not None else x
