"""Imports translators of Marian: `model.npz` with its settings inside, and its vocabularies."""
