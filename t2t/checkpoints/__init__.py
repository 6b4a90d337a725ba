"""Checkpoints: one checkpoint, the store of a run's checkpoints, their mean, and whether they fit a model."""
