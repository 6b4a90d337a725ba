"""The Transformer's encoder as a masked language model: Devlin et al. (2018, arXiv:1810.04805), section 3.1, task 1.

Legend: B batch, S source length, T target length, D width.
"""

from typing import Any, ClassVar

from keras import ops

from t2t.hparams.transformer import TransformerHParams
from t2t.layers.tensors import at_least
from t2t.models.transformer_encoder import TransformerEncoder
from t2t.registry import register_model
from t2t.specs.constants import TARGETS
from t2t.specs.features import FeatureKind


@register_model
class TransformerMlm(TransformerEncoder):
    """A masked language model: the Transformer's encoder predicts the words that its input hides.

    Problems named `..._masked` hide words of the input; the targets are these words, at the same positions. Weights
    have the same names as in `transformer_encoder`, which can start from them with `--warm_start_from`.
    """

    hparams_class = TransformerHParams
    accepts_inputs = (FeatureKind.TOKENS,)
    accepts_targets = (FeatureKind.TOKENS,)
    shared_table: ClassVar[str] = "source_embedding"

    @classmethod
    def registered_name(cls) -> str:
        """Returns the prefix of `TransformerEncoder`, so that the variables have the same paths."""
        return TransformerEncoder.registered_name()

    def answer(self, x_BSD, keep_BS, features: dict[str, Any]):
        """Returns the encoder's output at the positions of the targets, (B, T, D), zeros where inputs hold no data."""
        x_BSD = x_BSD * ops.cast(keep_BS, x_BSD.dtype)[..., None]
        if TARGETS not in features:
            return x_BSD
        count = ops.shape(features[TARGETS])[1]
        missing = at_least(0, count - ops.shape(x_BSD)[1])  # 0 for a masked text, whose targets are as long
        return ops.pad(x_BSD, ((0, 0), (0, missing), (0, 0)))[:, :count]
