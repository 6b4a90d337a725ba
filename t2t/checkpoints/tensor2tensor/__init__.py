"""Checkpoints of Tensor2Tensor: `names` tells what their variables are, `weights` converts."""
