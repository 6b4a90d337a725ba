"""Compiles and runs searches on TensorFlow; start reading at `backend.py`."""
