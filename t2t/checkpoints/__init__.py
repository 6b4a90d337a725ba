"""A run on disk. Begin with `run_dir`, the output directory, and `store`, its checkpoints.

`run_record` is `run.json`, `checkpoint` one checkpoint, `layout` the names and pointers around it. `compatibility` says
whether weights fit a model, `averaging` makes the mean of several, `adapters` adds theirs to a base.
"""
