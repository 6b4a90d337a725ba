"""Deprecated: plug-ins of version 0.1 import the base of their hparams from here; use `from t2t import HParams`."""

from t2t.hparams.base import HParams as ModelHParams

__all__ = ["ModelHParams"]
