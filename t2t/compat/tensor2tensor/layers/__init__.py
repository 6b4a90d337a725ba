"""Tensor2Tensor's `layers`, as far as problems and sets use them."""

from t2t.compat.tensor2tensor.placeholders import modules_of

__getattr__ = modules_of(__name__)
