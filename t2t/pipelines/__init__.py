"""Apache Beam as an engine: each element of a pipeline is the number of a shard, which a worker makes as any process would."""
