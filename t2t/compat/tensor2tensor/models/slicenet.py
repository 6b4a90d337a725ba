"""The functions of Tensor2Tensor's sets of SliceNet."""

from t2t.compat.tensor2tensor.placeholders import placeholders_of
from t2t.compat.tensor2tensor.utils.hparam import from_own_set

slicenet_params1 = from_own_set("slicenet_1")
slicenet_params1_noam = from_own_set("slicenet_1noam")
slicenet_params1_tiny = from_own_set("slicenet_1tiny")

__getattr__ = placeholders_of(__name__)
