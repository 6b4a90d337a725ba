"""Runs work on Apache Beam: elements of its pipelines are numbers of shards, which workers make like any process."""
