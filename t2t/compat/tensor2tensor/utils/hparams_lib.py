"""Tensor2Tensor's `hparams_lib`."""

from t2t.compat.tensor2tensor.placeholders import placeholders_of
from t2t.compat.tensor2tensor.utils.trainer_lib import create_hparams

__all__ = ["create_hparams"]

__getattr__ = placeholders_of(__name__)
