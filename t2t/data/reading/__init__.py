"""Reads generated data. Start with `training_batches`: examples in a seeded order, cut into batches of equal work."""
