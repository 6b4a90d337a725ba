"""Compiles and runs searches on JAX; start reading at `backend.py`."""
