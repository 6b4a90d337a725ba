"""ByteNet's decoder alone, for problems without inputs (Kalchbrenner et al. 2016, arXiv:1610.10099, section 5)."""

from t2t.hparams.byte_net import ByteNetHParams
from t2t.models.byte_net import ByteNet
from t2t.registry import register_model


@register_model
class ByteNetLm(ByteNet):
    """A language model: ByteNet's decoder alone, for characters or other tokens, without inputs."""

    hparams_class = ByteNetHParams
    accepts_inputs = (None,)
