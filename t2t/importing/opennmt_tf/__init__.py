"""Transformers of OpenNMT-tf as runs."""
