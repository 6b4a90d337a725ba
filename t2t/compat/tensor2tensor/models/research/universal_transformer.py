"""The functions of Tensor2Tensor's sets of the Universal Transformer."""

from t2t.compat.tensor2tensor.placeholders import placeholders_of
from t2t.compat.tensor2tensor.utils.hparam import HParams, from_own_set

universal_transformer_base = from_own_set("universal_transformer_base")
universal_transformer_small = from_own_set("universal_transformer_small")
universal_transformer_big = from_own_set("universal_transformer_big")
universal_transformer_tiny = from_own_set("universal_transformer_tiny")
adaptive_universal_transformer_base = from_own_set("adaptive_universal_transformer_base")
adaptive_universal_transformer_small = from_own_set("adaptive_universal_transformer_small")
adaptive_universal_transformer_tiny = from_own_set("adaptive_universal_transformer_tiny")


def update_hparams_for_universal_transformer(hparams: HParams) -> HParams:
    """Returns a set of the Universal Transformer with the values of a Transformer's."""
    made = universal_transformer_base()
    for name in ("hidden_size", "filter_size", "num_heads", *hparams.changed):
        if name in made:
            setattr(made, name, hparams.get(name))
    return made


__getattr__ = placeholders_of(__name__)
