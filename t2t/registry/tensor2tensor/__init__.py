"""Tensor2Tensor's names, one file for each kind: their names here, and those without a counterpart.

A name is an alias only if it means the same: a problem with the same examples and a vocabulary of the same kind and
size, a model of the same layers, a set with the same values. Names that are equal in both projects are not listed. The
names are those of version 1.0.3 and of the last one, 1.15.7.
"""

from t2t.registry.tensor2tensor import hparams, models, problems

__all__ = ["hparams", "models", "problems"]
