"""Runs of Tensor2Tensor: `names` says what the variables of a checkpoint are, `weights` and `hparams` convert."""
