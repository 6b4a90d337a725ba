"""Imports Transformers of OpenNMT-tf."""
