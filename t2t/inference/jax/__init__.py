"""What compiles and runs searches on JAX; start reading at `backend.py`."""
