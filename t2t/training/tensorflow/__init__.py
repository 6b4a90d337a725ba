"""Training on TensorFlow; start reading at `engine.py`."""
