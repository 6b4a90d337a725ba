"""What the comparisons share: environments, data, processes that take turns, tables."""
