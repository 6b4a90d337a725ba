"""The Transformer's decoder alone, for problems without inputs."""

from t2t.hparams.transformer import TransformerHParams
from t2t.models.transformer import Transformer
from t2t.registry import register_model


@register_model
class TransformerLm(Transformer):
    """A language model: the Transformer's decoder alone, without inputs."""

    hparams_class = TransformerHParams
    accepts_inputs = (None,)
