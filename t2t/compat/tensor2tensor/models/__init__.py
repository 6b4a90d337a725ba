"""Tensor2Tensor's `models`: the functions of their sets; their networks are those of this project."""

from t2t.compat.tensor2tensor.placeholders import modules_of

__getattr__ = modules_of(__name__)
