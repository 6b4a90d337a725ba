"""Hyperparameters: typed fields in sections, Tensor2Tensor's override syntax, and named sets by model family."""
