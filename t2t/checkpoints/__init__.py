"""What a run saves of its model: one checkpoint, the store of them, their mean, and how they fit a model."""
