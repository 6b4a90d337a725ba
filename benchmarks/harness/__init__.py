"""Shared parts of the comparisons: environments, data, processes that take turns, tables."""
