"""Tensor2Tensor's `data_generators`: base classes of problems, vocabularies, helpers of generators."""

from t2t.compat.tensor2tensor.placeholders import modules_of

__getattr__ = modules_of(__name__)
