"""Imports Marian models: `model.npz`, which contains its settings, and the vocabularies."""
