"""Lexical shortlists: which target pieces a search considers for a source. Loads no TensorFlow."""
