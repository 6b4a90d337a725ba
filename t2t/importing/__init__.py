"""Runs of other libraries made into runs of this one; a folder a format. Start with `tensor2tensor.run`."""
