"""Tensor2Tensor's `problems`, as notebooks use it."""

from t2t.compat.tensor2tensor.placeholders import placeholders_of
from t2t.compat.tensor2tensor.utils.registry import list_problems as available
from t2t.compat.tensor2tensor.utils.registry import problem

__all__ = ["available", "problem"]

__getattr__ = placeholders_of(__name__)
