"""Trained runs as an HTTP service on this machine: TensorFlow Serving's paths, and a plain `/translate`."""
