"""ByteNet's decoder alone, for problems without inputs (Kalchbrenner et al. 2016, arXiv:1610.10099, section 5)."""

from t2t.hparams.byte_net import ByteNetHParams
from t2t.models.byte_net import ByteNet
from t2t.registry import register_model
from t2t.specs.features import ProblemSpec


@register_model
class ByteNetLm(ByteNet):
    """A language model: ByteNet's decoder alone, for characters or other tokens, without inputs."""

    hparams_class = ByteNetHParams
    accepts_inputs = (None,)

    @classmethod
    def unread_hparams(cls, spec: ProblemSpec) -> dict[str, str]:
        """Adds those of the unfolding of inputs; see the base class."""
        why = f"model {cls.__name__} has no inputs to unfold"
        return super().unread_hparams(spec) | dict.fromkeys(("unfolding_factor", "unfolding_offset"), why)
