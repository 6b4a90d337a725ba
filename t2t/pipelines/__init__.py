"""Apache Beam as an engine: elements of its pipelines are numbers of shards, which workers make as any process does."""
