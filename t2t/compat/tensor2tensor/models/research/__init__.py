"""Tensor2Tensor's models of research."""

from t2t.compat.tensor2tensor.placeholders import modules_of

__getattr__ = modules_of(__name__)
