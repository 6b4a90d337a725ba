"""Filters of training samples: what is left out of the training split while its data is generated."""
