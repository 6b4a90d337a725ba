"""Checkpoints of Tensor2Tensor: `files` reads them, `names` tells what their variables are, `weights` converts."""
