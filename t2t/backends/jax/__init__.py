"""Training on JAX; start reading at `backend.py`."""
