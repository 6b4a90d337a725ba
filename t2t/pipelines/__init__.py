"""Runs work on Apache Beam: elements of its pipelines are numbers of shards, which workers make like any process.

`generation` and `decoding` have the tasks, `launch` starts a pipeline in a process of its own, `driver` runs it there.
"""
