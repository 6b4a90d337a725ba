"""Imports runs of Tensor2Tensor: `names` identifies the variables of a checkpoint; `weights` and `hparams` convert."""
