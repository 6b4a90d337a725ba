"""Tensor2Tensor's `utils`: registry, hparams, names of metrics, entry points for Python."""

from t2t.compat.tensor2tensor.placeholders import modules_of

__getattr__ = modules_of(__name__)
