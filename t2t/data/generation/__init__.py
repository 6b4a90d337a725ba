"""Generates the data of a problem. Begin with `generate`: a `plan`, every shard of every split, then the manifest.

`shard_job` makes a shard: samples are encoded (`encoding`), counted (`tally`) and written (`split_writer`) as parts.
`array_tasks` and `worker_pool` divide the shards, `merging` makes one folder of them. What decides the data is in
`problem_settings`, its folder and the mirror of that in `data_folder`.
"""
