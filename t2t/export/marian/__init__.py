"""Exports runs to Marian."""
