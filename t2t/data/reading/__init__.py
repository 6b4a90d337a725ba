"""Reads generated data. Begin with `training_batches`: examples in a seeded order, cut into batches of equal work.

`reader` has the examples of a split and their lengths, `sampler` the order, `preprocessors` random changes. `batching`,
`fixed_shapes` and `packing` choose the examples of a batch, `batch_arrays` makes it. `mixture` and `prefetch` go around
it.
"""
