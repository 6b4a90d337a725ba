"""Generates the data of a problem. Start with `generate`: a plan, every shard of every split, then the manifest."""
