"""TensorFlow as a backend; start reading at `backend.py`."""
