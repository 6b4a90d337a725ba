"""Filters of training samples, which leave samples out of the training split when data is generated."""
