"""Training on JAX; start reading at `engine.py`."""
